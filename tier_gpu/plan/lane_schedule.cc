#include "tier_gpu/plan/lane_schedule.h"

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {
namespace {

constexpr auto kForeground = static_cast<size_t>(CopyUrgency::kForeground);
constexpr auto kBackground = static_cast<size_t>(CopyUrgency::kBackground);

CopyDirection OtherOf(CopyDirection direction) {
  return direction == CopyDirection::kHostToDevice ? CopyDirection::kDeviceToHost
                                                   : CopyDirection::kHostToDevice;
}

}  // namespace

absl::Status LaneSchedule::Add(const ScheduledBatch& batch) {
  std::deque<uint64_t>& queue = lane(batch.direction).waiting[static_cast<size_t>(batch.urgency)];
  if (queue.size() >= kMaxQueuedBatches) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "lane schedule: ", queue.size(),
        batch.urgency == CopyUrgency::kForeground ? " foreground" : " background", " batches wait ",
        batch.direction == CopyDirection::kHostToDevice ? "host to device" : "device to host",
        ", the most that may, so batch ", batch.batch, " is refused; try again"));
  }
  queue.push_back(batch.batch);
  return absl::OkStatus();
}

bool LaneSchedule::BackgroundGoes(CopyDirection direction) const {
  const Lane& own = lane(direction);
  if (own.waiting[kBackground].empty()) return false;
  if (own.passed_over >= kMaxPassedOver) return true;
  const Lane& other = lane(OtherOf(direction));
  return own.waiting[kForeground].empty() && other.waiting[kForeground].empty() &&
         other.running[kForeground] == 0;
}

std::optional<ScheduledBatch> LaneSchedule::Next(CopyDirection direction) {
  Lane& own = lane(direction);
  if (Running(own) >= kMaxBatchesInFlight) return std::nullopt;
  const size_t urgency = BackgroundGoes(direction) ? kBackground : kForeground;
  std::deque<uint64_t>& queue = own.waiting[urgency];
  if (queue.empty()) return std::nullopt;
  const ScheduledBatch next = {
      .direction = direction, .urgency = static_cast<CopyUrgency>(urgency), .batch = queue.front()};
  queue.pop_front();
  ++own.running[urgency];
  if (urgency == kBackground) {
    own.passed_over = 0;
    return next;
  }
  for (Lane& lane : lanes_) {
    if (!lane.waiting[kBackground].empty()) ++lane.passed_over;
  }
  return next;
}

void LaneSchedule::Done(const ScheduledBatch& batch) {
  size_t& running = lane(batch.direction).running[static_cast<size_t>(batch.urgency)];
  KVT_CHECK(running > 0);
  --running;
}

void LaneSchedule::Audit() const {
  for (const Lane& lane : lanes_) {
    KVT_CHECK(Running(lane) <= kMaxBatchesInFlight);
    for (const std::deque<uint64_t>& queue : lane.waiting) {
      KVT_CHECK(queue.size() <= kMaxQueuedBatches);
    }
    KVT_CHECK(!lane.waiting[kBackground].empty() || lane.passed_over == 0);
  }
}

}  // namespace kvtier
