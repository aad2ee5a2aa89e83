#include "tier_gpu/step_words.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

SignalWord* WordOf(const SignalPage& page, StepWord word) {
  return page.word(static_cast<size_t>(word));
}

}  // namespace

StepWords::StepWords(Device* device, SlotTable* table, Executor* executor, TaskScope* scope)
    : device_(device),
      table_(table),
      executor_(executor),
      scope_(scope),
      workers_(table->workers()) {}

absl::StatusOr<PoolWorker> StepWords::Attach() {
  for (uint32_t number = 1; number < workers_.size(); ++number) {
    Worker& worker = workers_[number];
    if (worker.page != nullptr) continue;
    KVT_ASSIGN_OR_RETURN(std::unique_ptr<SignalPage> page, SignalPage::Create());
    KVT_RETURN_IF_ERROR(device_->Pin(page->bytes()));
    worker.page = {page.release(), [device = device_](const SignalPage* unused) {
                     (void)device->Unpin(unused->bytes());
                     delete unused;
                   }};
    ++worker.attachment;
    return PoolWorker{number};
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "GPU pool: ", workers_.size() - 1, " workers use it, the most that may; close a session"));
}

void StepWords::Detach(PoolWorker worker) {
  Worker& gone = of(worker);
  KVT_CHECK(gone.page != nullptr);
  gone.page->Release(0, kSignalWords);
  gone.page.reset();
  table_->Crash(worker);
}

void StepWords::Observe() {
  for (uint32_t number = 1; number < workers_.size(); ++number) {
    if (workers_[number].page != nullptr) ObserveOne(PoolWorker{number});
  }
}

// The worker may write any value to its words; only its own holds depend on them.
void StepWords::ObserveOne(PoolWorker worker) {
  const SignalPage& page = *of(worker).page;
  const SignalWord& retired_word = *WordOf(page, StepWord::kRetired);
  const uint64_t begun = WordOf(page, StepWord::kBegun)->load(std::memory_order_acquire);
  if (begun > table_->begun(worker)) KVT_CHECK(table_->Begin(worker, begun).ok());
  const uint64_t retired =
      std::min(retired_word.load(std::memory_order_relaxed), table_->begun(worker));
  if (retired <= table_->retired(worker)) return;
  if (!device_->Reached(retired_word, retired)) return;
  KVT_CHECK(table_->Retire(worker, retired).ok());
}

Task<absl::StatusOr<bool>> StepWords::Retired(PoolWorker worker, uint64_t step,
                                              absl::Time deadline) {
  const uint64_t attachment = of(worker).attachment;
  if (of(worker).page == nullptr) co_return false;
  ObserveOne(worker);
  if (step > table_->begun(worker)) {
    co_return absl::InvalidArgumentError(absl::StrCat("step is ", step, "; must be at most ",
                                                      table_->begun(worker),
                                                      ", the last that the worker began"));
  }
  while (of(worker).page != nullptr && of(worker).attachment == attachment) {
    if (table_->retired(worker) >= step) co_return true;
    if (waits_ended_) co_return false;
    if (polled_ == nullptr) {
      polled_ = std::make_shared<Event>(executor_);
      scope_->Spawn(Poll());
    }
    const std::shared_ptr<Event> polled = polled_;
    if (!co_await polled->WaitUntil(deadline)) co_return false;
  }
  co_return false;
}

// One poll serves all waiting flows.
Task<void> StepWords::Poll() {
  co_await SleepUntil(executor_, executor_->Now() + kStepPollInterval);
  Observe();
  if (polled_ != nullptr) std::exchange(polled_, nullptr)->Set();
}

void StepWords::EndWaits() {
  waits_ended_ = true;
  if (polled_ != nullptr) std::exchange(polled_, nullptr)->Set();
}

uint64_t StepWords::UnusedBytes(PoolWorker worker) const {
  return WordOf(*of(worker).page, StepWord::kUnusedBytes)->load(std::memory_order_relaxed);
}

}  // namespace kvtier
