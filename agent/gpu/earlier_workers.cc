#include "agent/gpu/earlier_workers.h"

#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

uint64_t WordOf(const SignalPage& page, StepWord word) {
  return page.word(static_cast<size_t>(word))->load(std::memory_order_acquire);
}

}  // namespace

EarlierWorkers::EarlierWorkers(GpuPool* pool, StepWords* words, PoolLedger* ledger,
                               const std::vector<PoolLedger::Worker>& workers)
    : pool_(pool), words_(words), ledger_(ledger) {
  for (const PoolLedger::Worker& worker : workers) {
    if (worker.has_slots) {
      waiting_.push_back({.worker = worker});
    } else {
      ledger_->RemoveWorker(worker.place);
    }
  }
}

EarlierWorkers::~EarlierWorkers() {
  if (holder_.has_value()) words_->Detach(*holder_);
}

absl::Status EarlierWorkers::Keep(std::span<const SlotRef> slots) {
  if (waiting_.empty()) return absl::OkStatus();
  KVT_ASSIGN_OR_RETURN(holder_, words_->Attach());
  SlotTable& table = pool_->table();
  // Let go within a step that has not ended: who evicts then sees slots that drain.
  KVT_CHECK(table.Begin(*holder_, 1).ok());
  for (const SlotRef slot : slots) {
    KVT_CHECK(table.Hold(*holder_, slot).ok());
    KVT_CHECK(table.Release(*holder_, slot).ok());
  }
  return absl::OkStatus();
}

void EarlierWorkers::Offered(const OfferedPage& offered) {
  for (Waiting& waiting : waiting_) {
    if (waiting.worker.page == offered.id) waiting.page = offered.page;
  }
  Sweep();
}

void EarlierWorkers::Gone(size_t place) {
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (waiting.worker.place != place) return false;
    ledger_->RemoveWorker(place);
    return true;
  });
  ReleaseIfDone();
}

void EarlierWorkers::Sweep() {
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (!IsDone(waiting)) return false;
    ledger_->RemoveWorker(waiting.worker.place);
    return true;
  });
  ReleaseIfDone();
}

bool EarlierWorkers::IsDone(const Waiting& waiting) {
  if (waiting.page == nullptr) return false;
  // In this order: who is over begins nothing more.
  if (WordOf(*waiting.page, StepWord::kOver) == 0) return false;
  const uint64_t begun = WordOf(*waiting.page, StepWord::kBegun);
  return WordOf(*waiting.page, StepWord::kRetired) >= begun;
}

void EarlierWorkers::ReleaseIfDone() {
  if (!waiting_.empty() || !holder_.has_value()) return;
  words_->Detach(*holder_);
  holder_.reset();
}

}  // namespace kvtier
