// Holds how many batches a lane keeps in flight and how often it is polled, and the queue model
// that says whether this keeps the link busy.
//
// A lane is a closed queue. A batch waits for its turn on the link, crosses it, and is noticed by
// the next poll; then the batch that takes its place is submitted and prepared by a kernel. With
// kMaxBatchesInFlight batches in the cycle, the link is idle when none of them is on it or waits
// for it.
#ifndef KVTIER_TIER_GPU_DEVICE_LANE_DEPTH_H_
#define KVTIER_TIER_GPU_DEVICE_LANE_DEPTH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "tier_gpu/device/block_batch.h"

namespace kvtier {

struct LaneQueue {
  double link_gb_per_s = 0;
  uint64_t batch_bytes = 0;
  size_t in_flight = 0;
  double call_us = 0;     // Time of the submitting thread for a batch.
  double notice_us = 0;   // Delay until the polling thread knows of a batch's end.
  double prepare_us = 0;  // Time of a kernel for a batch, beside the batch's time on the link.
};

// Returns the share of the time in which the link is busy, up to 1, when every delay is as long as
// stated. REQUIRES: link_gb_per_s, in_flight and call_us are positive.
constexpr double BusyShare(const LaneQueue& queue) {
  const double link_us = static_cast<double>(queue.batch_bytes) / (queue.link_gb_per_s * 1e3);
  const double round_us = link_us + queue.notice_us + queue.call_us + queue.prepare_us;
  const double by_depth = static_cast<double>(queue.in_flight) * link_us / round_us;
  // Neither the submitting thread nor the kernels may be slower than the link.
  const double slowest_us = std::max(queue.call_us, queue.prepare_us);
  return std::min({1.0, by_depth, link_us / slowest_us});
}

// Batches in flight in one lane. With two, the link would wait for the kernels of batches of 8 MiB,
// however soon their ends are noticed. An urgent batch waits for at most this many others: 0.92 ms
// of 16 MiB on PCIe 5.0.
inline constexpr size_t kMaxBatchesInFlight = 3;
// Interval between two polls of a GPU that copies. The thread sleeps between them and leaves the
// rest of its core to the engine; a spinning thread would gain 10 us a batch, which the third batch
// in flight hides. It sleeps with TimerSlack::kLeast; otherwise Linux adds up to 50 us.
inline constexpr int64_t kLanePollMicroseconds = 10;
inline constexpr absl::Duration kLanePollInterval = absl::Microseconds(kLanePollMicroseconds);

// Batches of eight blocks of 2 MiB on an H200 with PCIe 5.0 x16: 55 GB/s, and 214 us for a kernel
// that gathers and sums. A batch takes about ten calls of 2.3 us. A sleeping thread wakes up to 23
// us late (p99, measured on a virtual machine). lane_depth_test has the sources.
static_assert(BusyShare({.link_gb_per_s = 55,
                         .batch_bytes = kMaxBlockBatchBytes,
                         .in_flight = kMaxBatchesInFlight,
                         .call_us = 23,
                         .notice_us = kLanePollMicroseconds + 23,
                         .prepare_us = 214}) >= 0.95);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_LANE_DEPTH_H_
