// Implements BlockTableModel's sequences that leave the pool and come back.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tier_gpu/block_table_model.h"
#include "tier_gpu/tables/preemption.h"

namespace kvtier::testing {

void BlockTableModel::SwapOut(const std::vector<SequenceId>& ids) {
  const absl::StatusOr<std::vector<SwapCopy>> planned = tables_.PlanSwapOut(ids);
  const absl::StatusOr<std::vector<SwapCopy>> copies = tables_.SwapOut(ids);
  ASSERT_EQ(copies.status(), absl::OkStatus());
  EXPECT_EQ(*planned, *copies);
  const auto find = [this](SequenceId id) {
    return std::find_if(sequences_.begin(), sequences_.end(),
                        [id](const Sequence& one) { return one.id == id; });
  };
  for (const SequenceId id : ids) find(id)->swapped_out = true;
  std::vector<SwapCopy> expected;
  for (const SequenceId id : ids) {
    Sequence& sequence = *find(id);
    for (uint32_t at = 0; at < sequence.blocks.size(); ++at) {
      BlockPtr& block = sequence.blocks[at];
      if (block == nullptr || block.use_count() > AwayHolds(block.get())) continue;
      const uint32_t tokens = TokensIn(sequence, at);
      const uint64_t* const bytes = Memory(block->slot.index);
      sequence.saved[at].assign(bytes, bytes + tokens);
      expected.push_back({id, at, block->slot.index, tokens});
      GiveUp(sequence.worker, &block);
    }
  }
  EXPECT_EQ(*copies, expected);
}

bool BlockTableModel::SwapOutSome() {
  std::vector<SequenceId> ids;
  bool in_flight = true;
  for (uint64_t left = 1 + random_.Below(3); left > 0 && !sequences_.empty(); --left) {
    const Sequence* const sequence = Any();
    ids.push_back(sequence->id);
    in_flight = in_flight && InFlight(sequence->worker);
  }
  if (in_flight) {
    SwapOut(ids);
    return false;
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(tables_.SwapOut(ids).status()));
  return true;
}

// Swaps out sequences that are behind a random one, to free a random number of slots. Refused if
// they cannot free so many.
bool BlockTableModel::SwapOutVictims() {
  const Sequence* const first = Any();
  if (first == nullptr || !InFlight(PoolWorker{0}) || !InFlight(PoolWorker{1})) return true;
  const size_t needed = 1 + random_.Below(8);
  std::map<const Block*, long> others;  // Holds of sequences that are not behind.
  for (const Sequence& one : sequences_) {
    for (const BlockPtr& block : one.blocks) {
      if (block == nullptr || !IsAhead(*first, one)) continue;
      const auto [at, added] = others.emplace(block.get(), block.use_count());
      --at->second;
    }
  }
  const auto gain = static_cast<size_t>(
      std::count_if(others.begin(), others.end(), [](const auto& one) { return one.second == 0; }));
  const absl::StatusOr<std::vector<SequenceId>> victims = PickVictims(tables_, first->id, needed);
  if (gain < needed) {
    EXPECT_TRUE(absl::IsResourceExhausted(victims.status())) << victims.status();
    return true;
  }
  EXPECT_EQ(victims.status(), absl::OkStatus());
  for (const Sequence& one : sequences_) {
    if (std::find(victims->begin(), victims->end(), one.id) == victims->end()) continue;
    EXPECT_TRUE(IsAhead(*first, one));
  }
  const size_t before = LiveSlots();
  SwapOut(*victims);
  EXPECT_LE(LiveSlots() + needed, before);
  return false;
}

bool BlockTableModel::SetPriority() {
  Sequence* const sequence = Any();
  if (sequence == nullptr) return true;
  sequence->priority = static_cast<int32_t>(random_.Below(4));
  EXPECT_EQ(tables_.SetPriority(sequence->id, sequence->priority), absl::OkStatus());
  return false;
}

bool BlockTableModel::SwapIn() {
  Sequence* first = nullptr;
  for (Sequence& one : sequences_) {
    if (one.swapped_out && (first == nullptr || IsAhead(one, *first))) first = &one;
  }
  const std::optional<SequenceId> next = PickSwapIn(tables_);
  EXPECT_EQ(next.has_value(), first != nullptr);
  EXPECT_EQ(next.value_or(SequenceId{}), first != nullptr ? first->id : SequenceId{});
  Sequence* const sequence = first != nullptr && random_.Below(4) > 0 ? first : Any();
  if (sequence == nullptr) return true;
  const size_t free = FreeSlots();
  const absl::StatusOr<std::vector<SwapCopy>> copies = tables_.SwapIn(sequence->id);
  if (!sequence->swapped_out) {
    EXPECT_TRUE(absl::IsFailedPrecondition(copies.status())) << copies.status();
    return true;
  }
  if (sequence->saved.size() > free) {
    EXPECT_TRUE(absl::IsResourceExhausted(copies.status())) << copies.status();
    return true;
  }
  EXPECT_EQ(copies.status(), absl::OkStatus());
  EXPECT_EQ(copies->size(), sequence->saved.size());
  for (const SwapCopy& copy : *copies) {
    const std::vector<uint64_t>& saved = sequence->saved[copy.block];
    EXPECT_EQ(copy.sequence, sequence->id);
    EXPECT_EQ(copy.tokens, saved.size());
    EXPECT_EQ(sequence->blocks[copy.block], nullptr);
    sequence->blocks[copy.block] = Taken(copy.slot);
    std::copy(saved.begin(), saved.end(), Memory(copy.slot));
  }
  sequence->saved.clear();
  sequence->swapped_out = false;
  return false;
}

}  // namespace kvtier::testing
