#include "client/paged_kv.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "tier_gpu/tables/preemption.h"

namespace kvtier {
namespace {

// The unused bytes are counted again after (blocks / this) changes, because counting takes longer
// the more blocks there are. So the agent's figure is at most that many changes old.
constexpr size_t kBlocksForAChange = 16;

}  // namespace

// Step is one step of the worker, around one call. The host copies within the call, so the step has
// ended when the call returns.
class PagedKv::Step {
 public:
  explicit Step(SlotTable* slots) : slots_(slots), number_(slots->begun(kSelf) + 1) {
    KVT_CHECK(slots_->Begin(kSelf, number_).ok());
  }
  ~Step() { KVT_CHECK(slots_->Retire(kSelf, number_).ok()); }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

 private:
  SlotTable* const slots_;
  const uint64_t number_;
};

absl::StatusOr<std::unique_ptr<PagedKv>> PagedKv::Create(GrantedSlots slots,
                                                         const Options& options) {
  if (slots.size() == 0) {
    return absl::InvalidArgumentError(
        "slots is empty; must be granted by an agent that has a pool for "
        "blocks of this size, which the host reaches");
  }
  if (options.block_tokens == 0) {
    return absl::InvalidArgumentError("block_tokens is 0; must be positive");
  }
  return absl::WrapUnique(new PagedKv(std::move(slots), options));
}

PagedKv::PagedKv(GrantedSlots slots, const Options& options)
    : options_(options),
      granted_(std::move(slots)),
      slots_({.slots = static_cast<uint32_t>(granted_.size())}),
      tables_(&slots_, options.block_tokens),
      page_(granted_.steps()) {
  TellUnused();
}

PagedKv::~PagedKv() {
  if (page_ != nullptr) page_->AddUnusedBytes(-static_cast<int64_t>(told_unused_));
}

void PagedKv::TellUnused() {
  const size_t blocks = slots_.used_slots();
  if (page_ == nullptr || ++untold_changes_ < blocks / kBlocksForAChange) return;
  untold_changes_ = 0;
  const uint64_t unused = UnusedBytes();
  page_->AddUnusedBytes(static_cast<int64_t>(unused) - static_cast<int64_t>(told_unused_));
  told_unused_ = unused;
}

uint64_t PagedKv::UnusedBytes() const {
  const Fragmentation tokens = tables_.Measure();
  const uint64_t used =
      (tokens.room - tokens.unused) * granted_.block_bytes() / options_.block_tokens;
  return granted_.size() * granted_.slot_bytes() - used;
}

absl::Status PagedKv::Append(SequenceId sequence, uint32_t tokens) {
  const Step step(&slots_);
  KVT_ASSIGN_OR_RETURN(const Appended appended, tables_.Append(sequence, tokens));
  const std::span<const uint32_t> blocks = *tables_.slots(sequence);
  // A block's tokens lie in every layer, so all of the block is copied, whatever part is used.
  const uint64_t begun = appended.position / options_.block_tokens;
  const bool was_begun = appended.position % options_.block_tokens != 0;
  if (appended.copy) {
    ++copied_blocks_;
    std::ranges::copy(slot(appended.copy->from), slot(appended.copy->to).begin());
  }
  for (uint64_t block = begun + (was_begun ? 1 : 0); block < blocks.size(); ++block) {
    std::ranges::fill(slot(blocks[block]), std::byte{0});
  }
  TellUnused();
  return absl::OkStatus();
}

absl::StatusOr<SequenceId> PagedKv::Fork(SequenceId sequence) { return tables_.Fork(sequence); }

absl::Status PagedKv::Truncate(SequenceId sequence, uint64_t tokens) {
  KVT_RETURN_IF_ERROR(tables_.Truncate(sequence, tokens));
  TellUnused();
  return absl::OkStatus();
}

absl::Status PagedKv::Free(SequenceId sequence) {
  KVT_RETURN_IF_ERROR(tables_.Free(sequence));
  swapped_.erase(sequence);
  TellUnused();
  return absl::OkStatus();
}

absl::Status PagedKv::SwapOut(std::span<const SequenceId> sequences) {
  KVT_ASSIGN_OR_RETURN(const std::vector<SwapCopy> planned, tables_.PlanSwapOut(sequences));
  std::map<SequenceId, Swapped> leaving;
  std::map<SequenceId, std::vector<uint32_t>> numbers;
  for (const SwapCopy& copy : planned) {
    leaving[copy.sequence].blocks.push_back(copy.block);
    numbers[copy.sequence].push_back(granted_.numbers()[copy.slot]);
  }
  // Before the tables change: after an error the copies made so far are dropped, and all sequences
  // are as they were.
  for (auto& [sequence, swapped] : leaving) {
    const SequenceFacts facts = *tables_.Facts(sequence);
    KVT_ASSIGN_OR_RETURN(
        swapped.held,
        granted_.SwapOut(numbers[sequence], {.priority = facts.priority, .keep_slots = true}));
  }
  const Step step(&slots_);
  KVT_ASSIGN_OR_RETURN(const std::vector<SwapCopy> copies, tables_.SwapOut(sequences));
  KVT_CHECK(copies == planned);
  for (auto& [sequence, swapped] : leaving) swapped_[sequence].push_back(std::move(swapped));
  TellUnused();
  return absl::OkStatus();
}

uint64_t PagedKv::swapped_bytes() const {
  uint64_t blocks = 0;
  for (const auto& [sequence, parts] : swapped_) {
    for (const Swapped& part : parts) blocks += part.blocks.size();
  }
  return blocks * granted_.block_bytes();
}

std::optional<SequenceId> PagedKv::NextReturn() const { return PickSwapIn(tables_); }

absl::Status PagedKv::CheckReturn(SequenceId sequence) const {
  KVT_ASSIGN_OR_RETURN(const SequenceFacts facts, tables_.Facts(sequence));
  const std::optional<SequenceId> next = NextReturn();
  if (!facts.swapped_out || next == sequence) return absl::OkStatus();
  const SequenceFacts first = *tables_.Facts(*next);
  return absl::FailedPreconditionError(
      absl::StrCat("sequence ", facts.started, " of priority ", facts.priority,
                   " cannot be swapped in yet; swap in first sequence ", first.started,
                   " of priority ", first.priority, ", which is first in line"));
}

absl::Status PagedKv::SwapIn(SequenceId sequence) {
  KVT_RETURN_IF_ERROR(CheckReturn(sequence));
  const Step step(&slots_);
  // Slots of shared blocks, which were not moved out and stay granted after an error, too.
  std::vector<SlotRef> stayed;
  const std::span<const uint32_t> slots = *tables_.slots(sequence);
  for (const uint32_t slot : slots) {
    if (slot != kNoSlot) stayed.push_back(slots_.Ref(slot));
  }
  for (const SlotRef slot : stayed) KVT_CHECK(slots_.Hold(kSelf, slot).ok());
  const absl::StatusOr<std::vector<SwapCopy>> copies = tables_.SwapIn(sequence);
  absl::Status status = copies.status();
  if (copies.ok()) status = BringIn(sequence, *copies);
  if (copies.ok() && !status.ok()) KVT_CHECK(tables_.SwapOut({&sequence, 1}).ok());
  for (const SlotRef slot : stayed) KVT_CHECK(slots_.Release(kSelf, slot).ok());
  TellUnused();
  return status;
}

absl::Status PagedKv::BringIn(SequenceId sequence, std::span<const SwapCopy> copies) {
  std::map<uint32_t, uint32_t> number_of;  // Slot's number, by block.
  for (const SwapCopy& copy : copies) number_of[copy.block] = granted_.numbers()[copy.slot];
  std::vector<Swapped>& parts = swapped_[sequence];
  size_t blocks = 0;
  for (const Swapped& part : parts) blocks += part.blocks.size();
  absl::Status status;
  if (blocks != copies.size()) status = absl::DataLossError("some of its blocks were lost before");
  size_t back = 0;
  for (; status.ok() && back < parts.size(); ++back) {
    std::vector<uint32_t> numbers;
    for (const uint32_t block : parts[back].blocks) numbers.push_back(number_of.at(block));
    status = parts[back].held.SwapInto(granted_, numbers);
    if (!status.ok()) break;
  }
  // A part that is back is not in host memory any more, so after an error the sequence is lost.
  const bool is_lost = back > 0 || absl::IsDataLoss(status);
  if (status.ok() || is_lost) swapped_.erase(sequence);
  if (status.ok() || !is_lost) return status;
  return absl::DataLossError(
      absl::StrCat("blocks of the sequence are lost; free it and compute "
                   "it again: ",
                   status.message()));
}

absl::StatusOr<std::vector<SequenceId>> PagedKv::Victims(SequenceId beneficiary,
                                                         size_t slots) const {
  return PickVictims(tables_, beneficiary, slots);
}

absl::StatusOr<std::vector<uint32_t>> PagedKv::slots(SequenceId sequence) const {
  KVT_ASSIGN_OR_RETURN(const SequenceFacts facts, tables_.Facts(sequence));
  if (facts.swapped_out) {
    return absl::FailedPreconditionError(
        absl::StrCat("sequence ", facts.started, " is swapped out; swap it in first"));
  }
  std::vector<uint32_t> numbers;
  const std::span<const uint32_t> blocks = *tables_.slots(sequence);
  numbers.reserve(blocks.size());
  for (const uint32_t index : blocks) numbers.push_back(granted_.numbers()[index]);
  return numbers;
}

}  // namespace kvtier
