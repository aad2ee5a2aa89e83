#include "tier_gpu/tables/slot_table.h"

#include <algorithm>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {

SlotTable::SlotTable(Options options) {
  KVT_CHECK(options.slots > 0 && options.slots < kNone && options.workers > 0);
  slots_.resize(options.slots);
  uses_.resize(size_t{options.slots} * options.workers);
  workers_.resize(options.workers);
  free_.reserve(options.slots);
  for (uint32_t index = options.slots; index > 0; --index) free_.push_back(index - 1);
  closed_from_ = slots_.size();
}

void SlotTable::Grow(uint32_t slots) {
  KVT_CHECK(closed_from_ == slots_.size() && slots < kNone - slots_.size());
  const size_t before = slots_.size();
  slots_.resize(before + slots, Slot{.generation = first_generation_});
  uses_.resize(slots_.size() * workers_.size());
  closed_from_ = slots_.size();
  // New slots go to the bottom of the stack, so that warm slots are handed out first.
  std::vector<uint32_t> more;
  more.reserve(slots);
  for (size_t index = slots_.size(); index > before; --index) {
    more.push_back(static_cast<uint32_t>(index - 1));
  }
  free_.insert(free_.begin(), more.begin(), more.end());
}

void SlotTable::CloseFrom(uint32_t first) {
  if (first >= closed_from_) return;
  closed_free_ += std::erase_if(free_, [first](uint32_t index) { return index >= first; });
  closed_from_ = first;
}

void SlotTable::Reopen() {
  for (size_t index = slots_.size(); index > closed_from_; --index) {
    const Slot& slot = slots_[index - 1];
    if (slot.holds == 0 && slot.readers == 0) free_.push_back(static_cast<uint32_t>(index - 1));
  }
  closed_from_ = slots_.size();
  closed_free_ = 0;
}

size_t SlotTable::closed_use_end() const {
  size_t end = slots_.size();
  while (end > closed_from_ && slots_[end - 1].holds == 0 && slots_[end - 1].readers == 0) --end;
  return end;
}

void SlotTable::CutTo(size_t slots) {
  KVT_CHECK(slots > 0 && slots <= slots_.size() && closed_use_end() <= slots);
  for (size_t index = slots; index < slots_.size(); ++index) {
    first_generation_ = std::max(first_generation_, slots_[index].generation);
  }
  closed_free_ -= slots_.size() - slots;
  slots_.resize(slots);
  uses_.resize(slots_.size() * workers_.size());
}

void SlotTable::GiveBack(uint32_t index) {
  if (index < closed_from_) {
    free_.push_back(index);
  } else {
    ++closed_free_;
  }
}

absl::Status SlotTable::Check(SlotRef slot) const {
  if (ABSL_PREDICT_FALSE(slot.index >= slots_.size())) {
    return absl::AbortedError(
        absl::StrCat("slot ", slot.index, " is none of the pool's ", slots_.size()));
  }
  const Slot& now = slots_[slot.index];
  if (ABSL_PREDICT_FALSE(slot.generation != now.generation || now.holds == 0)) {
    return absl::AbortedError(
        absl::StrCat("slot ", slot.index, " was freed: it is of generation ", now.generation,
                     now.holds == 0 ? " and held by nobody" : "", ", not ", slot.generation));
  }
  return absl::OkStatus();
}

absl::StatusOr<SlotRef> SlotTable::Allocate(PoolWorker worker) {
  KVT_CHECK(static_cast<size_t>(worker) < workers_.size());
  if (free_.empty()) {
    return absl::ResourceExhaustedError(absl::StrCat("none of ", slots_.size(), " slots is free, ",
                                                     draining_, " wait for compute to retire"));
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.holds = 1;
  slot.sealed = false;
  UseOf(worker, index).holds = 1;
  return SlotRef{index, slot.generation};
}

absl::Status SlotTable::Hold(PoolWorker worker, SlotRef slot) {
  KVT_CHECK(static_cast<size_t>(worker) < workers_.size());
  KVT_RETURN_IF_ERROR(Check(slot));
  ++slots_[slot.index].holds;
  ++UseOf(worker, slot.index).holds;
  return absl::OkStatus();
}

absl::Status SlotTable::Release(PoolWorker worker, SlotRef slot) {
  KVT_CHECK(static_cast<size_t>(worker) < workers_.size());
  KVT_RETURN_IF_ERROR(Check(slot));
  Use& use = UseOf(worker, slot.index);
  if (use.holds == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", static_cast<uint32_t>(worker), " does not hold slot ", slot.index));
  }
  // Linked before the hold ends: a slot without either would be free.
  if (--use.holds == 0 && of(worker).begun > of(worker).retired) Link(worker, slot.index);
  EndHold(slot.index);
  return absl::OkStatus();
}

void SlotTable::EndHold(uint32_t index) {
  Slot& slot = slots_[index];
  if (--slot.holds > 0) return;
  ++slot.generation;
  if (slot.readers > 0) {
    ++draining_;
  } else {
    GiveBack(index);
  }
}

// Steps only rise, so a use is linked at the end of the list. A use that is already linked (the
// slot was held again before its steps retired) moves there.
void SlotTable::Link(PoolWorker worker, uint32_t index) {
  Use& use = UseOf(worker, index);
  if (use.linked) {
    Unlink(worker, index);
  } else {
    ++slots_[index].readers;
  }
  Worker& owner = of(worker);
  use.linked = true;
  use.step = owner.begun;
  use.before = owner.newest;
  use.after = kNone;
  (owner.newest == kNone ? owner.oldest : UseOf(worker, owner.newest).after) = index;
  owner.newest = index;
}

void SlotTable::Unlink(PoolWorker worker, uint32_t index) {
  Use& use = UseOf(worker, index);
  Worker& owner = of(worker);
  (use.before == kNone ? owner.oldest : UseOf(worker, use.before).after) = use.after;
  (use.after == kNone ? owner.newest : UseOf(worker, use.after).before) = use.before;
  use.linked = false;
}

void SlotTable::EndReading(PoolWorker worker, uint32_t index) {
  Unlink(worker, index);
  Slot& slot = slots_[index];
  if (--slot.readers > 0 || slot.holds > 0) return;
  --draining_;
  GiveBack(index);
}

absl::Status SlotTable::Seal(SlotRef slot) {
  KVT_RETURN_IF_ERROR(Check(slot));
  slots_[slot.index].sealed = true;
  return absl::OkStatus();
}

absl::Status SlotTable::Keep(SlotRef slot) {
  KVT_RETURN_IF_ERROR(Check(slot));
  Slot& kept = slots_[slot.index];
  if (!kept.sealed) {
    return absl::FailedPreconditionError(
        absl::StrCat("slot ", slot.index, " is not sealed: its bytes may still change"));
  }
  if (kept.kept) {
    return absl::AlreadyExistsError(absl::StrCat("the cache keeps slot ", slot.index, " already"));
  }
  kept.kept = true;
  ++kept.holds;
  return absl::OkStatus();
}

absl::Status SlotTable::Drop(SlotRef slot) {
  KVT_RETURN_IF_ERROR(Check(slot));
  if (!slots_[slot.index].kept) {
    return absl::FailedPreconditionError(absl::StrCat("the cache does not keep slot ", slot.index));
  }
  slots_[slot.index].kept = false;
  EndHold(slot.index);
  return absl::OkStatus();
}

absl::Status SlotTable::Begin(PoolWorker worker, uint64_t step) {
  KVT_CHECK(static_cast<size_t>(worker) < workers_.size());
  Worker& owner = of(worker);
  if (step <= owner.begun) {
    return absl::InvalidArgumentError(
        absl::StrCat("step ", step, " of worker ", static_cast<uint32_t>(worker),
                     "; must be above ", owner.begun, ", which began last"));
  }
  owner.begun = step;
  return absl::OkStatus();
}

absl::Status SlotTable::Retire(PoolWorker worker, uint64_t step) {
  KVT_CHECK(static_cast<size_t>(worker) < workers_.size());
  Worker& owner = of(worker);
  if (step > owner.begun) {
    return absl::InvalidArgumentError(
        absl::StrCat("step ", step, " of worker ", static_cast<uint32_t>(worker),
                     "; must be at most ", owner.begun, ", which began last"));
  }
  owner.retired = std::max(owner.retired, step);
  while (owner.oldest != kNone && UseOf(worker, owner.oldest).step <= owner.retired) {
    EndReading(worker, owner.oldest);
  }
  return absl::OkStatus();
}

void SlotTable::Crash(PoolWorker worker) {
  KVT_CHECK(static_cast<size_t>(worker) < workers_.size());
  Worker& owner = of(worker);
  while (owner.oldest != kNone) EndReading(worker, owner.oldest);
  for (uint32_t index = 0; index < slots_.size(); ++index) {
    for (Use& use = UseOf(worker, index); use.holds > 0;) {
      --use.holds;
      EndHold(index);
    }
  }
  owner = Worker{};
}

SlotState SlotTable::state(uint32_t index) const {
  const Slot& slot = slots_[index];
  if (slot.holds > 0) return slot.sealed ? SlotState::kSealed : SlotState::kFilling;
  return slot.readers > 0 ? SlotState::kDraining : SlotState::kFree;
}

void SlotTable::Audit() const {
  std::vector<uint32_t> holds(slots_.size(), 0);
  std::vector<uint32_t> readers(slots_.size(), 0);
  for (uint32_t number = 0; number < workers_.size(); ++number) {
    const auto worker = static_cast<PoolWorker>(number);
    const Worker& owner = of(worker);
    KVT_CHECK(owner.retired <= owner.begun);
    uint64_t last = owner.retired + 1;
    uint32_t before = kNone;
    size_t linked = 0;
    for (uint32_t index = owner.oldest; index != kNone; index = UseOf(worker, index).after) {
      const Use& use = UseOf(worker, index);
      KVT_CHECK(use.linked && use.before == before);
      KVT_CHECK(use.step >= last && use.step <= owner.begun);
      KVT_CHECK(++linked <= slots_.size());
      last = use.step;
      before = index;
    }
    KVT_CHECK(owner.newest == before);
    for (uint32_t index = 0; index < slots_.size(); ++index) {
      const Use& use = UseOf(worker, index);
      holds[index] += use.holds;
      readers[index] += use.linked ? 1 : 0;
      linked -= use.linked ? 1 : 0;
    }
    KVT_CHECK(linked == 0);
  }
  std::vector<bool> is_free(slots_.size(), false);
  for (const uint32_t index : free_) {
    KVT_CHECK(index < slots_.size() && !is_free[index]);
    is_free[index] = true;
  }
  size_t draining = 0;
  size_t closed_free = 0;
  for (uint32_t index = 0; index < slots_.size(); ++index) {
    const Slot& slot = slots_[index];
    KVT_CHECK(slot.holds == holds[index] + (slot.kept ? 1 : 0));
    KVT_CHECK(slot.readers == readers[index]);
    KVT_CHECK(!slot.kept || slot.sealed);
    const bool unused = slot.holds == 0 && slot.readers == 0;
    KVT_CHECK(is_free[index] == (unused && index < closed_from_));
    closed_free += unused && index >= closed_from_ ? 1 : 0;
    draining += state(index) == SlotState::kDraining ? 1 : 0;
  }
  KVT_CHECK(draining == draining_ && closed_free == closed_free_);
}

}  // namespace kvtier
