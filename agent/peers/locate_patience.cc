#include "agent/peers/locate_patience.h"

#include <algorithm>

namespace kvtier {

absl::Duration LocatePatience::Allowed(std::optional<absl::Time> heard) const {
  if (!heard.has_value()) return absl::ZeroDuration();
  // The coordinator sent nothing since a locate failed, or too soon after the second failure.
  if (*heard <= failed_) return absl::ZeroDuration();
  return allowed_;
}

void LocatePatience::Answered(absl::Time sent, absl::Time now) {
  const absl::Duration took = now - sent;
  if (mean_.has_value()) {
    deviation_ += (absl::AbsDuration(took - *mean_) - deviation_) / 4;
    *mean_ += (took - *mean_) / 8;
  } else {
    mean_ = took;
    deviation_ = took / 2;
  }
  allowed_ = std::clamp(*mean_ + 4 * deviation_, grace_, longest_);
  failed_ = absl::InfinitePast();
}

void LocatePatience::Failed(absl::Time sent, absl::Time now) {
  // A locate that was in progress when another one failed says nothing new.
  if (sent < failed_) return;
  // A coordinator that answers heartbeats and not locates has become slower, so the next wait
  // is longer. If that was not enough, it is tried once a heartbeat.
  const bool again = failed_ != absl::InfinitePast();
  allowed_ = std::min(2 * allowed_, longest_);
  failed_ = again ? now + kHeartbeatInterval : now;
}

}  // namespace kvtier
