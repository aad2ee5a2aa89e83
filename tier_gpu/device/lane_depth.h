// Holds how many batches a lane keeps in flight and how often it is polled, and the queue model
// that says whether this keeps the link busy.
//
// A lane is a closed queue. A batch waits for its turn on the link, crosses it, is noticed by the
// next poll, and the batch that takes its place is submitted and prepared by a kernel. With
// kMaxBatchesInFlight going round, the link is idle when all of them are on the way around it.
#ifndef KVTIER_TIER_GPU_DEVICE_LANE_DEPTH_H_
#define KVTIER_TIER_GPU_DEVICE_LANE_DEPTH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace kvtier {

struct LaneQueue {
  double link_gb_per_s = 0;
  uint64_t batch_bytes = 0;
  size_t in_flight = 0;
  double call_us = 0;     // The submitting thread's time for a batch.
  double notice_us = 0;   // From the end of a batch until the thread that polls knows of it.
  double prepare_us = 0;  // A kernel's time on a batch beside its time on the link.
};

// Returns the share of the time in which the link is busy, up to 1, with every delay at its
// longest.
constexpr double BusyShare(const LaneQueue& queue) {
  const double link_us = static_cast<double>(queue.batch_bytes) / (queue.link_gb_per_s * 1e3);
  const double round_us = link_us + queue.notice_us + queue.call_us + queue.prepare_us;
  const double by_depth = static_cast<double>(queue.in_flight) * link_us / round_us;
  return std::min({1.0, by_depth, link_us / queue.call_us});
}

// Batches of one lane. Two let the link wait for the kernels of staged batches, however soon their
// ends are noticed. An urgent batch waits behind as many: 0.23 ms of 4 MiB on PCIe 5.0.
inline constexpr size_t kMaxBatchesInFlight = 3;
// Interval between two looks at a GPU that copies. The thread sleeps between them, and leaves the
// rest of its core to the engine: a thread that spins gains 10 us a batch, which the third batch in
// flight hides. It sleeps with TimerSlack::kLeast; Linux adds up to 50 us otherwise.
inline constexpr absl::Duration kLanePollInterval = absl::Microseconds(10);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_LANE_DEPTH_H_
