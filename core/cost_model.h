// CostModel answers "take, or recompute?": it predicts how long a fetch will take
// from what each source was measured to do. Pure; executor thread only.
#ifndef KVTIER_CORE_COST_MODEL_H_
#define KVTIER_CORE_COST_MODEL_H_

#include <cstdint>

#include "absl/time/time.h"

namespace kvtier {

// TransferEstimate is a running estimate of one source: a disk, or one peer.
//   time(bytes) = latency + bytes / bandwidth
// Both are exponentially weighted means (weight 1/8, as TCP's RTT estimate,
// RFC 6298) that start from the given prior.
class TransferEstimate {
 public:
  TransferEstimate(absl::Duration latency, double bytes_per_second)
      : latency_(latency), bytes_per_second_(bytes_per_second) {}
  // Learns from one finished transfer. A transfer under 64 KiB corrects the latency, a longer one
  // the bandwidth; a longer one that took less than the latency corrects the latency, too.
  void Observe(uint64_t bytes, absl::Duration took);
  absl::Duration Predict(uint64_t bytes) const;
  double bytes_per_second() const { return bytes_per_second_; }

 private:
  absl::Duration latency_;
  double bytes_per_second_;
};

// Returns whether fetching `bytes` is predicted to end inside `budget`, which is the time the
// caller says recomputing would take.
bool WorthFetching(const TransferEstimate& source, uint64_t bytes, absl::Duration budget);

}  // namespace kvtier

#endif  // KVTIER_CORE_COST_MODEL_H_
