#include "core/cost_model.h"

#include <algorithm>

namespace kvtier {
namespace {

constexpr uint64_t kSmallBytes = uint64_t{64} << 10;
constexpr double kWeight = 1.0 / 8;

}  // namespace

void TransferEstimate::Observe(uint64_t bytes, absl::Duration took) {
  if (took <= absl::ZeroDuration()) return;  // Below the clock's resolution: teaches nothing.
  // Latency is a lower bound of any transfer, so one that beats it corrects it.
  if (bytes < kSmallBytes || took < latency_) latency_ += kWeight * (took - latency_);
  if (bytes < kSmallBytes) return;
  // The time after the latency is spent moving bytes. It counts as half of the time at least, so
  // that an estimate of latency that is too high does not make the bandwidth infinite.
  const absl::Duration moving = std::max(took - latency_, took / 2);
  const double sample = static_cast<double>(bytes) / absl::ToDoubleSeconds(moving);
  bytes_per_second_ += kWeight * (sample - bytes_per_second_);
}

absl::Duration TransferEstimate::Predict(uint64_t bytes) const {
  return latency_ + absl::Seconds(static_cast<double>(bytes) / bytes_per_second_);
}

bool WorthFetching(const TransferEstimate& source, uint64_t bytes, absl::Duration budget) {
  return source.Predict(bytes) < budget;
}

}  // namespace kvtier
