#include "tier_gpu/device/copy_lane.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {

CopyLane::Turn::Turn(Turn&& other) noexcept
    : lane_(std::exchange(other.lane_, nullptr)), place_(other.place_) {}

CopyLane::Turn::~Turn() {
  if (lane_ != nullptr) lane_->End(place_);
}

CopyLane::~CopyLane() { KVT_CHECK(turns_.empty()); }

absl::StatusOr<CopyLane::Turn> CopyLane::Join() {
  if (turns_.size() >= kMaxLaneTurns) {
    return absl::ResourceExhaustedError(
        absl::StrCat("copy lane: all ", kMaxLaneTurns, " turns are taken"));
  }
  turns_.emplace_back(executor_);
  if (turns_.size() == 1) turns_.back().Set();
  return Turn(this, std::prev(turns_.end()));
}

void CopyLane::End(std::list<Event>::iterator place) {
  const bool was_running = place == turns_.begin();
  turns_.erase(place);
  if (was_running && !turns_.empty()) turns_.front().Set();
}

}  // namespace kvtier
