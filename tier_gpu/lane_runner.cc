#include "tier_gpu/lane_runner.h"

#include <algorithm>

#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// Maximum time for which an event that the device did not predict, such as its loss, stays unseen.
constexpr absl::Duration kMaxPollInterval = absl::Milliseconds(1);

// Keeps the first error of a copy, but an error that IsAbandoned() replaces any other.
void Add(const absl::Status& status, absl::Status* to) {
  if (IsAbandoned(status)) {
    *to = status;
  } else {
    to->Update(status);
  }
}

}  // namespace

Task<absl::Status> LaneRunner::Run(Copy copy) {
  KVT_CHECK(flows_->OnExecutor());
  if (copy.batches.empty()) co_return absl::OkStatus();
  const CopyDirection direction = copy.direction;
  const CopyUrgency urgency = copy.urgency;
  const auto ending = std::make_shared<Ending>(flows_, copy.batches.size());
  line(direction, urgency).copies.push_back({.copy = std::move(copy), .ending = ending});
  HandOver(direction, urgency);
  co_await ending->done.WaitUntil(absl::InfiniteFuture());
  co_return ending->status;
}

void LaneRunner::HandOver(CopyDirection direction, CopyUrgency urgency) {
  Line& own = line(direction, urgency);
  std::vector<Waiting> batches;
  while (!own.copies.empty() && own.unfinished < kMaxQueuedBatches) {
    Line::Queued& first = own.copies.front();
    Batch& batch = first.copy.batches[first.handed_over];
    batches.push_back({std::move(batch), first.copy.region, first.ending});
    ++own.unfinished;
    if (++first.handed_over == first.copy.batches.size()) own.copies.pop_front();
  }
  if (batches.empty()) return;
  lanes_->Post([this, what = ScheduledBatch{direction, urgency},
                batches = std::move(batches)]() mutable { Enqueue(what, std::move(batches)); });
}

Task<void> LaneRunner::RunBetweenPolls(absl::AnyInvocable<void()> change) {
  KVT_CHECK(flows_->OnExecutor());
  const auto changed = std::make_shared<Event>(flows_);
  lanes_->Post([this, change = std::move(change), changed]() mutable {
    change();
    flows_->Post([changed] { changed->Set(); });
  });
  co_await changed->WaitUntil(absl::InfiniteFuture());
}

void LaneRunner::Enqueue(const ScheduledBatch& what, std::vector<Waiting> batches) {
  for (Waiting& batch : batches) {
    const ScheduledBatch scheduled = {what.direction, what.urgency, ++next_number_};
    KVT_CHECK(schedule_.Add(scheduled).ok());  // HandOver() has checked for room.
    waiting_[scheduled.batch] = std::move(batch);
  }
  Pump();
}

void LaneRunner::Pump() {
  std::array<Completion, 16> ended;
  while (const size_t count = device_->Poll(ended)) {
    for (size_t i = 0; i < count; ++i) Ended(ended[i]);
  }
  // Tries both directions until neither has a batch to submit: a batch in one direction may hold
  // back the other's background batches, or let them go.
  while (SubmitNext(CopyDirection::kHostToDevice) || SubmitNext(CopyDirection::kDeviceToHost)) {
  }
  for (auto& running : running_) {
    for (Running& batch : running) TellHandedOver(batch);
  }
  PumpAgain();
}

void LaneRunner::TellHandedOver(Running& running) {
  auto& told = running.waited.batch.before.handed_over;
  // The `before` mark, if the batch has one, is its last operation.
  if (told == nullptr || !running.status.ok() || !device_->HandedOver(running.last)) {
    return;
  }
  std::exchange(told, nullptr)();
}

void LaneRunner::Ended(const Completion& completion) {
  if (completion.ticket.lane == Lane::kCompute) return;
  const auto direction = completion.ticket.lane == Lane::kOnboard ? CopyDirection::kHostToDevice
                                                                  : CopyDirection::kDeviceToHost;
  auto& running = running_[static_cast<size_t>(direction)];
  KVT_CHECK(!running.empty());
  Running& oldest = running.front();
  Add(completion.status, &oldest.status);
  oldest.waited.ending->failure.Update(completion.status);
  if (oldest.last != completion.ticket) return;
  TellHandedOver(oldest);
  Finish(oldest.scheduled, oldest.waited.ending, oldest.status);
  running.pop_front();
}

bool LaneRunner::SubmitNext(CopyDirection direction) {
  const std::optional<ScheduledBatch> next = schedule_.Next(direction);
  if (!next) return false;
  Waiting waiting = std::move(waiting_.extract(next->batch).mapped());
  Ticket last;
  // After a batch of a copy has failed, its later batches are dropped: their marks would report
  // success.
  absl::Status status = waiting.ending->failure;
  if (status.ok()) status = Submit(direction, waiting, &last);
  waiting.ending->failure.Update(status);
  if (last.sequence == 0) {
    Finish(*next, waiting.ending, status);
    return true;
  }
  running_[static_cast<size_t>(direction)].push_back({*next, last, std::move(waiting), status});
  return true;
}

absl::Status LaneRunner::Submit(CopyDirection direction, const Waiting& waiting, Ticket* last) {
  const Batch& batch = waiting.batch;
  const Lane lane = LaneOf(direction);
  if (batch.after.word != nullptr) {
    KVT_ASSIGN_OR_RETURN(*last, device_->Await(lane, batch.after.word, batch.after.value));
  }
  if (!batch.segments.empty()) {
    KVT_ASSIGN_OR_RETURN(
        *last, device_->Submit(
                   {.direction = direction, .region = waiting.region, .segments = batch.segments}));
  }
  if (batch.blocks) {
    BlockBatch blocks = *batch.blocks;
    blocks.direction = direction;
    blocks.region = waiting.region;
    KVT_ASSIGN_OR_RETURN(*last, device_->SubmitBlocks(blocks));
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
    --line(scheduled.direction, scheduled.urgency).unfinished;
    HandOver(scheduled.direction, scheduled.urgency);
    Add(status, &ending->status);
    if (--ending->left == 0) ending->done.Set();
  });
}

void LaneRunner::PumpAgain() {
  if (timer_) lanes_->Cancel(*std::exchange(timer_, std::nullopt));
  // If no batch runs, none waits: the schedule holds batches back only while others run.
  if (running_[0].empty() && running_[1].empty()) return;
  const absl::Time now = lanes_->Now();
  timer_ = lanes_->PostAt(std::clamp(device_->next_poll(), now, now + kMaxPollInterval), [this] {
    timer_.reset();
    Pump();
  });
}

}  // namespace kvtier
