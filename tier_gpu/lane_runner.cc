#include "tier_gpu/lane_runner.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// The longest that something which the device did not foresee, as its loss, stays unseen.
constexpr absl::Duration kMaxPollInterval = absl::Milliseconds(1);

}  // namespace

Task<absl::Status> LaneRunner::Run(Copy copy) {
  KVT_CHECK(flows_->OnExecutor());
  if (copy.batches.empty()) co_return absl::OkStatus();
  size_t& unfinished =
      unfinished_[static_cast<size_t>(copy.direction)][static_cast<size_t>(copy.urgency)];
  if (copy.batches.size() > kMaxQueuedBatches - unfinished) {
    co_return absl::ResourceExhaustedError(absl::StrCat("copies: ", copy.batches.size(),
                                                        " batches are too many behind ", unfinished,
                                                        "; ", kMaxQueuedBatches, " may wait"));
  }
  unfinished += copy.batches.size();
  const auto ending = std::make_shared<Ending>(flows_, copy.batches.size());
  lanes_->Post(
      [this, copy = std::move(copy), ending]() mutable { Enqueue(std::move(copy), ending); });
  co_await ending->done.WaitUntil(absl::InfiniteFuture());
  co_return ending->status;
}

Task<void> LaneRunner::Between(absl::AnyInvocable<void()> change) {
  KVT_CHECK(flows_->OnExecutor());
  const auto changed = std::make_shared<Event>(flows_);
  lanes_->Post([this, change = std::move(change), changed]() mutable {
    change();
    flows_->Post([changed] { changed->Set(); });
  });
  co_await changed->WaitUntil(absl::InfiniteFuture());
}

void LaneRunner::Enqueue(Copy copy, const std::shared_ptr<Ending>& ending) {
  for (Batch& batch : copy.batches) {
    const ScheduledBatch scheduled = {copy.direction, copy.urgency, ++next_number_};
    KVT_CHECK(schedule_.Add(scheduled).ok());  // Run() has counted.
    waiting_[scheduled.batch] = {std::move(batch), copy.region, ending};
  }
  Pump();
}

void LaneRunner::Pump() {
  std::array<Completion, 16> ended;
  while (const size_t count = device_->Poll(ended)) {
    for (size_t i = 0; i < count; ++i) Ended(ended[i]);
  }
  // What one direction begins may let the other's background go, or hold it back.
  while (SubmitNext(CopyDirection::kHostToDevice) || SubmitNext(CopyDirection::kDeviceToHost)) {
  }
  PumpAgain();
}

void LaneRunner::Ended(const Completion& completion) {
  auto& running = running_[completion.ticket.lane == Lane::kOnboard ? 0 : 1];
  KVT_CHECK(!running.empty());
  Running& oldest = running.front();
  oldest.status.Update(completion.status);
  if (oldest.last != completion.ticket) return;
  Finish(oldest.scheduled, oldest.waited.ending, oldest.status);
  running.pop_front();
}

bool LaneRunner::SubmitNext(CopyDirection direction) {
  const std::optional<ScheduledBatch> next = schedule_.Next(direction);
  if (!next) return false;
  Waiting waiting = std::move(waiting_.extract(next->batch).mapped());
  Ticket last;
  const absl::Status submitted = Submit(direction, waiting, &last);
  if (last.sequence > 0) {
    running_[static_cast<size_t>(direction)].push_back(
        {*next, last, std::move(waiting), submitted});
  } else {
    Finish(*next, waiting.ending, submitted);
  }
  return true;
}

absl::Status LaneRunner::Submit(CopyDirection direction, const Waiting& waiting, Ticket* last) {
  const Batch& batch = waiting.batch;
  const Lane lane = LaneOf(direction);
  if (batch.after.word != nullptr) {
    KVT_ASSIGN_OR_RETURN(*last, device_->Await(lane, batch.after.word, batch.after.value));
  }
  if (!batch.segments.empty()) {
    KVT_ASSIGN_OR_RETURN(*last, device_->Submit({.direction = direction,
                                                 .path = batch.path,
                                                 .region = waiting.region,
                                                 .segments = batch.segments}));
  }
  if (batch.before.word != nullptr) {
    KVT_ASSIGN_OR_RETURN(*last, device_->Signal(lane, batch.before.word, batch.before.value));
  }
  return absl::OkStatus();
}

void LaneRunner::Finish(const ScheduledBatch& scheduled, const std::shared_ptr<Ending>& ending,
                        const absl::Status& status) {
  schedule_.Done(scheduled);
  flows_->Post([this, scheduled, ending, status] {
    --unfinished_[static_cast<size_t>(scheduled.direction)][static_cast<size_t>(scheduled.urgency)];
    ending->status.Update(status);
    if (--ending->left == 0) ending->done.Set();
  });
}

void LaneRunner::PumpAgain() {
  if (timer_) lanes_->Cancel(*std::exchange(timer_, std::nullopt));
  // What waits outside waits for what runs.
  if (running_[0].empty() && running_[1].empty()) return;
  const absl::Time now = lanes_->Now();
  timer_ = lanes_->PostAt(std::clamp(device_->next_poll(), now, now + kMaxPollInterval), [this] {
    timer_.reset();
    Pump();
  });
}

}  // namespace kvtier
