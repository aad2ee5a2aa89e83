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
  size_t& queued = queued_[static_cast<size_t>(copy.direction)];
  if (copy.batches.size() > kMaxQueuedBatches - queued) {
    co_return absl::ResourceExhaustedError(absl::StrCat("copies: ", copy.batches.size(),
                                                        " batches are too many behind ", queued,
                                                        "; ", kMaxQueuedBatches, " may wait"));
  }
  queued += copy.batches.size();
  const auto ending = std::make_shared<Ending>(flows_, copy.batches.size());
  lanes_->Post(
      [this, copy = std::move(copy), ending]() mutable { Enqueue(std::move(copy), ending); });
  co_await ending->done.WaitUntil(absl::InfiniteFuture());
  co_return ending->status;
}

void LaneRunner::Enqueue(Copy copy, const std::shared_ptr<Ending>& ending) {
  Queue& queue = queues_[static_cast<size_t>(copy.direction)];
  auto& line = copy.urgency == Urgency::kForeground ? queue.foreground : queue.background;
  for (Batch& batch : copy.batches) line.push_back({std::move(batch), copy.region, ending});
  Pump();
}

void LaneRunner::Pump() {
  std::array<Completion, 16> ended;
  while (const size_t count = device_->Poll(ended)) {
    for (size_t i = 0; i < count; ++i) Ended(ended[i]);
  }
  SubmitFrom(CopyDirection::kHostToDevice);
  SubmitFrom(CopyDirection::kDeviceToHost);
  PumpAgain();
}

void LaneRunner::Ended(const Completion& completion) {
  const CopyDirection direction = completion.ticket.lane == Lane::kOnboard
                                      ? CopyDirection::kHostToDevice
                                      : CopyDirection::kDeviceToHost;
  auto& running = queues_[static_cast<size_t>(direction)].running;
  KVT_CHECK(!running.empty());
  Running& oldest = running.front();
  oldest.status.Update(completion.status);
  if (oldest.last != completion.ticket) return;
  Finish(oldest.ending, direction, oldest.status);
  running.pop_front();
}

void LaneRunner::SubmitFrom(CopyDirection direction) {
  Queue& queue = queues_[static_cast<size_t>(direction)];
  while (queue.running.size() < kMaxLaneBatches) {
    auto& line = queue.foreground.empty() ? queue.background : queue.foreground;
    if (line.empty()) return;
    Ticket last;
    const absl::Status submitted = Submit(direction, line.front(), &last);
    if (last.sequence > 0) {
      queue.running.push_back(
          {last, std::move(line.front().batch), submitted, std::move(line.front().ending)});
    } else {
      Finish(line.front().ending, direction, submitted);
    }
    line.pop_front();
  }
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

void LaneRunner::Finish(const std::shared_ptr<Ending>& ending, CopyDirection direction,
                        const absl::Status& status) {
  flows_->Post([this, ending, direction, status] {
    --queued_[static_cast<size_t>(direction)];
    ending->status.Update(status);
    if (--ending->left == 0) ending->done.Set();
  });
}

void LaneRunner::PumpAgain() {
  if (timer_) lanes_->Cancel(*std::exchange(timer_, std::nullopt));
  const bool waits = std::ranges::any_of(queues_, [](const Queue& queue) {
    return !queue.running.empty() || !queue.foreground.empty() || !queue.background.empty();
  });
  if (!waits) return;
  const absl::Time now = lanes_->Now();
  timer_ = lanes_->PostAt(std::clamp(device_->next_poll(), now, now + kMaxPollInterval), [this] {
    timer_.reset();
    Pump();
  });
}

}  // namespace kvtier
