// BlockTable maps the blocks of sequences to slots: allocated block by block as
// tokens come, shared by forks and with the cache, copied before a shared block is
// written, taken out of the pool and brought back whole.
//
// It moves no bytes. It says which copies its caller owes: that of Append() before the
// tokens are written, those of SwapIn() before the next read. The worker submits them
// in its current step (SlotTable::Begin), which is what keeps a slot that is given up
// here from being reused under them; so a step must be in flight, begun and not
// retired. Who copies on another timeline holds the slot for itself (SlotTable::Hold).
//
// Pure bookkeeping: no I/O, no clock, no threads, deterministic. Executor thread
// only. Does not own the slot table, which must outlive it and keep its size. An error changes
// nothing.
// Invariants, checked by Audit(): a sequence has ceil(tokens / block_tokens) blocks,
// all of them in slots unless it is away; its worker holds each slot as often as the
// worker's tables name it, at least.
#ifndef KVTIER_TIER_GPU_TABLES_BLOCK_TABLE_H_
#define KVTIER_TIER_GPU_TABLES_BLOCK_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tier_gpu/tables/slot_table.h"

namespace kvtier {

// Never used twice: of a freed sequence, it is kNotFound.
enum class SequenceId : uint64_t {};

inline constexpr uint32_t kNoSlot = ~uint32_t{0};  // A block that was swapped out.

// The first `tokens` tokens of one slot into another.
struct BlockCopy {
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t tokens = 0;
  bool operator==(const BlockCopy&) const = default;
};

// Token `position + i` goes to slot `slots(sequence)[(position + i) / block_tokens]`.
struct Appended {
  uint64_t position = 0;
  // To be done first. One at most: only the last block can be partly filled.
  std::optional<BlockCopy> copy;
};

// One block of a sequence between a slot and wherever the caller keeps it.
struct SwapCopy {
  SequenceId sequence{};
  uint32_t block = 0;  // Of the sequence.
  uint32_t slot = 0;
  uint32_t tokens = 0;  // Of the block; the rest of the slot is noise.
  bool operator==(const SwapCopy&) const = default;
};

struct SequenceFacts {
  PoolWorker worker{};
  int32_t priority = 0;
  uint64_t started = 0;  // Creations and forks are numbered from 1.
  uint64_t tokens = 0;
  uint32_t blocks_out = 0;  // Swapped out, so that SwapIn() needs as many slots.
  bool away = false;
};

// Room of the used slots, in tokens. A token that is shared counts once.
struct Fragmentation {
  uint64_t room = 0;
  uint64_t unused = 0;
};

class BlockTable {
 public:
  // REQUIRES: block_tokens > 0; the slots may become fewer, and never more than they are now.
  BlockTable(SlotTable* slots, uint32_t block_tokens);

  // An empty sequence. The higher the priority, the later it is preempted.
  SequenceId Create(PoolWorker worker, int32_t priority);
  // Another place in line, also while it is away. Errors: kNotFound.
  absl::Status SetPriority(SequenceId sequence, int32_t priority);
  // Makes the cached blocks the head of an empty sequence. Errors: kNotFound; kAborted,
  // one of them was reused since; kFailedPrecondition, one is not sealed, or the
  // sequence is away or not empty.
  absl::Status Adopt(SequenceId sequence, std::span<const SlotRef> blocks);
  // Room for `tokens` more. A last block that is shared or sealed is copied first.
  // Errors: kNotFound; kInvalidArgument, no tokens; kFailedPrecondition, the sequence
  // is away, or a copy is owed and the worker has no step in flight;
  // kResourceExhausted, too few free slots (evict or preempt, then retry).
  absl::StatusOr<Appended> Append(SequenceId sequence, uint32_t tokens);
  // A second sequence with the same tokens, worker and priority, sharing every block.
  // Errors: kNotFound; kFailedPrecondition, the sequence is away.
  absl::StatusOr<SequenceId> Fork(SequenceId sequence);
  // Forgets all but the first `tokens`. Errors: kNotFound; kInvalidArgument, it has
  // fewer; kFailedPrecondition, the sequence is away.
  absl::Status Truncate(SequenceId sequence, uint64_t tokens);
  // Errors: kNotFound.
  absl::Status Free(SequenceId sequence);
  // Says that the block's bytes are complete (SlotTable::Seal) and names its slot, for
  // the cache. Errors: kNotFound; kInvalidArgument, it has no such block;
  // kFailedPrecondition, the block is not full or is swapped out.
  absl::StatusOr<SlotRef> Seal(SequenceId sequence, uint32_t block);

  // The sequences leave the pool, as one. A block goes where the cache does not keep
  // it and no sequence that stays has it: the copies say which, one for each sequence
  // that goes. The other blocks stay and are held; they may go later, when this is
  // called again for sequences that are away already. Errors: kNotFound;
  // kFailedPrecondition, a worker of theirs has no step in flight.
  absl::StatusOr<std::vector<SwapCopy>> SwapOut(std::span<const SequenceId> sequences);
  // Returns the copies that SwapOut() would, and changes nothing: for who copies first, as a copy
  // that may fail. Errors: kNotFound.
  absl::StatusOr<std::vector<SwapCopy>> PlanSwapOut(std::span<const SequenceId> sequences) const;
  // Slots for every block that is out, or none. They are the sequence's own: what was
  // sealed is not any more. Errors: kNotFound; kFailedPrecondition, the sequence is not
  // away; kResourceExhausted, too few free slots.
  absl::StatusOr<std::vector<SwapCopy>> SwapIn(SequenceId sequence);

  // The worker died (SlotTable::Crash, which this calls): its sequences are gone, those
  // that were away too. Returns how many. O(sequences and slots).
  size_t Crash(PoolWorker worker);

  // By block, for the attention kernel; kNoSlot where it is swapped out. Stays until
  // the next call that changes the sequence. Errors: kNotFound.
  absl::StatusOr<std::span<const uint32_t>> slots(SequenceId sequence) const;
  absl::StatusOr<SequenceFacts> Facts(SequenceId sequence) const;
  std::vector<SequenceId> Sequences() const;  // In no order that means anything.
  size_t sequences() const { return sequences_.size() - free_.size(); }
  const SlotTable& slot_table() const { return *slots_; }
  uint32_t block_tokens() const { return block_tokens_; }
  // Of the slots that tables name; O(blocks).
  Fragmentation Measure() const;
  // Aborts when an invariant of the header, or of the slot table, does not hold.
  void Audit() const;

 private:
  struct Sequence {
    SequenceFacts facts;          // started == 0: nothing lives at this place.
    std::vector<uint32_t> slots;  // Keeps its capacity for the next of this place.
  };

  // Null: unknown.
  Sequence* Find(SequenceId sequence);
  const Sequence* Find(SequenceId sequence) const;
  SequenceId IdOf(size_t place) const;
  // Of a block's tokens, those that the sequence has.
  uint32_t TokensIn(const Sequence& sequence, size_t block) const;
  absl::Status CheckInFlight(PoolWorker worker) const;
  void Release(const Sequence& sequence, uint32_t slot);
  // Copies out what the pool need not keep for a sequence that is away.
  void LetGo(SequenceId id, Sequence* sequence, std::vector<SwapCopy>* copies);
  void Forget(size_t place);

  SlotTable* const slots_;  // Not owned.
  const uint32_t block_tokens_;
  uint64_t started_ = 0;
  std::vector<Sequence> sequences_;
  std::vector<uint32_t> free_;        // Places in it.
  std::vector<uint32_t> away_holds_;  // By slot: holds of sequences that are away.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_TABLES_BLOCK_TABLE_H_
