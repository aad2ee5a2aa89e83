#include "tests/testing/sim_network.h"

namespace kvtier::testing {

absl::Time SimNetwork::ArrivalOf(const std::string& from, const std::string& to, uint64_t bytes) {
  if (cuts_.contains(std::minmax(from, to)) || random_.Draw(faults.lost)) {
    return absl::InfiniteFuture();
  }
  absl::Duration takes = random_.Between(faults.latency / 2, faults.latency * 2) +
                         absl::Seconds(static_cast<double>(bytes) / faults.bytes_per_second);
  if (random_.Draw(faults.spike)) {
    takes += random_.Between(absl::Milliseconds(1), faults.spike_latency);
  }
  return time_->Now() + takes;
}

void SimNetwork::Send(const std::string& from, const std::string& to, uint64_t bytes,
                      std::function<void()> deliver) {
  const int copies = random_.Draw(faults.repeated) ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    const absl::Time arrival = ArrivalOf(from, to, bytes);
    if (arrival != absl::InfiniteFuture()) time_->At(arrival, deliver);
  }
}

Agent* SimNetwork::AgentAt(const std::string& address) const {
  const auto found = agents_.find(address);
  return found == agents_.end() ? nullptr : found->second;
}

}  // namespace kvtier::testing
