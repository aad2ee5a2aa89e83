#include "client/paged_kv.h"

#include <algorithm>
#include <cstring>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "tier_gpu/tables/preemption.h"

namespace kvtier {
namespace {

// To measure takes as long as there are blocks, and is made up for by this part of them:
// what is told is as old as so many changes at most.
constexpr size_t kBlocksForAChange = 16;

}  // namespace

// The host copies at once, so that a step has ended when the call that made it returns.
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
        "slots: none were granted (no agent, or no pool for blocks "
        "of this size that the host reaches)");
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
  // A block's tokens lie in every layer: all of it is copied, whatever part is used.
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
  const auto begin = swapped_.lower_bound({sequence, 0});
  swapped_.erase(begin, swapped_.lower_bound({SequenceId{static_cast<uint64_t>(sequence) + 1}, 0}));
  TellUnused();
  return absl::OkStatus();
}

absl::Status PagedKv::SwapOut(std::span<const SequenceId> sequences) {
  uint64_t bytes = swapped_bytes();
  for (const SequenceId sequence : sequences) {
    KVT_ASSIGN_OR_RETURN(const std::span<const uint32_t> blocks, tables_.slots(sequence));
    bytes += blocks.size() * granted_.block_bytes();
  }
  if (bytes > options_.swap_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("swapping out: ", bytes,
                                                     " bytes would be out of the pool; swap_bytes "
                                                     "is ",
                                                     options_.swap_bytes));
  }
  const Step step(&slots_);
  KVT_ASSIGN_OR_RETURN(const std::vector<SwapCopy> copies, tables_.SwapOut(sequences));
  for (const SwapCopy& copy : copies) {
    const std::span<std::byte> from = slot(copy.slot);
    swapped_[{copy.sequence, copy.block}].assign(from.begin(), from.end());
  }
  TellUnused();
  return absl::OkStatus();
}

std::optional<SequenceId> PagedKv::NextReturn() const { return PickReturn(tables_); }

absl::Status PagedKv::CheckReturn(SequenceId sequence) const {
  KVT_ASSIGN_OR_RETURN(const SequenceFacts facts, tables_.Facts(sequence));
  const std::optional<SequenceId> next = NextReturn();
  if (!facts.away || next == sequence) return absl::OkStatus();
  const SequenceFacts first = *tables_.Facts(*next);
  return absl::FailedPreconditionError(
      absl::StrCat("sequence ", facts.started, " of priority ", facts.priority,
                   " cannot come back yet: sequence ", first.started, " of priority ",
                   first.priority, " is out, too, and first in line"));
}

absl::Status PagedKv::SwapIn(SequenceId sequence) {
  KVT_RETURN_IF_ERROR(CheckReturn(sequence));
  const Step step(&slots_);
  KVT_ASSIGN_OR_RETURN(const std::vector<SwapCopy> copies, tables_.SwapIn(sequence));
  for (const SwapCopy& copy : copies) {
    const auto node = swapped_.extract({copy.sequence, copy.block});
    KVT_CHECK(!node.empty());
    std::ranges::copy(node.mapped(), slot(copy.slot).begin());
  }
  TellUnused();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SequenceId>> PagedKv::Victims(SequenceId beneficiary,
                                                         size_t slots) const {
  return PickVictims(tables_, beneficiary, slots);
}

absl::StatusOr<std::vector<uint32_t>> PagedKv::slots(SequenceId sequence) const {
  KVT_ASSIGN_OR_RETURN(const SequenceFacts facts, tables_.Facts(sequence));
  if (facts.away) {
    return absl::FailedPreconditionError(
        absl::StrCat("sequence ", facts.started, " is out of the pool: swap it in first"));
  }
  std::vector<uint32_t> numbers;
  const std::span<const uint32_t> blocks = *tables_.slots(sequence);
  numbers.reserve(blocks.size());
  for (const uint32_t index : blocks) numbers.push_back(granted_.numbers()[index]);
  return numbers;
}

}  // namespace kvtier
