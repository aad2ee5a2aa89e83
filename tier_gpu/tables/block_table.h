// BlockTable maps the blocks of sequences to slots. Blocks are allocated one by one as tokens come,
// shared by forks and with the cache, and copied before a shared block is written. A sequence is
// swapped out of the pool and back in whole.
//
// BlockTable moves no bytes. It returns the copies that its caller must make: the copy of Append()
// before the tokens are written, the copies of SwapIn() before the next read. The worker submits
// them in its current step (SlotTable::Begin), which keeps a slot that is given up here from being
// reused under them. So a step must be in flight, that is, begun and not retired. A caller that
// copies on another timeline holds the slot itself (SlotTable::Hold).
//
// Pure bookkeeping: no I/O, no clock, no threads, deterministic. Executor thread only. Does not own
// the slot table, which must outlive it and keep its size. An error changes nothing.
// Invariants, checked by Audit(): a sequence has ceil(tokens / block_tokens) blocks, all of them in
// slots unless it is swapped out; its worker holds each slot at least as often as the worker's
// tables name it.
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

// Id of a sequence, never used twice: the id of a freed sequence gives kNotFound.
enum class SequenceId : uint64_t {};

inline constexpr uint32_t kNoSlot = ~uint32_t{0};  // Slot of a block that was swapped out.

// Copy of the first `tokens` tokens of one slot to another.
struct BlockCopy {
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t tokens = 0;
  bool operator==(const BlockCopy&) const = default;
};

// Result of Append(): token `position + i` goes to slot `slots(sequence)[(position + i) /
// block_tokens]`.
struct Appended {
  uint64_t position = 0;
  // Copy that the caller makes before it writes the tokens, if any. There is one at most: only the
  // last block can be partly filled.
  std::optional<BlockCopy> copy;
};

// Copy of one block of a sequence between a slot and the place where the caller keeps it.
struct SwapCopy {
  SequenceId sequence{};
  uint32_t block = 0;  // Index of the block in the sequence.
  uint32_t slot = 0;
  uint32_t tokens = 0;  // Number of tokens in the block; the rest of the slot has no meaning.
  bool operator==(const SwapCopy&) const = default;
};

struct SequenceFacts {
  PoolWorker worker{};
  int32_t priority = 0;
  uint64_t started = 0;  // Number of its creation or fork, counted from 1.
  uint64_t tokens = 0;
  // Number of blocks that are swapped out, for which SwapIn() needs slots.
  uint32_t blocks_out = 0;
  bool swapped_out = false;
};

// Room of the used slots, and the part of it that holds no token, in tokens. A slot that sequences
// share counts once.
struct Fragmentation {
  uint64_t room = 0;
  uint64_t unused = 0;
};

class BlockTable {
 public:
  // Makes an empty table. REQUIRES: block_tokens > 0; the number of slots may fall, but never
  // exceeds its present value.
  BlockTable(SlotTable* slots, uint32_t block_tokens);

  // Creates an empty sequence. The higher the priority, the later it is preempted.
  SequenceId Create(PoolWorker worker, int32_t priority);
  // Changes the sequence's priority, also while it is swapped out. Errors: kNotFound.
  absl::Status SetPriority(SequenceId sequence, int32_t priority);
  // Makes the blocks in these sealed slots the head of an empty sequence, whose worker then holds
  // them. Errors: kNotFound; kAborted, a slot was reused since; kFailedPrecondition, one is not
  // sealed, or the sequence is swapped out or not empty.
  absl::Status Adopt(SequenceId sequence, std::span<const SlotRef> blocks);
  // Makes room for `tokens` more tokens. A last block that is shared or sealed is copied first.
  // Errors: kNotFound; kInvalidArgument, no tokens; kFailedPrecondition, the sequence is swapped
  // out, or a copy is needed and the worker has no step in flight; kResourceExhausted, too few free
  // slots (evict or preempt, then retry).
  absl::StatusOr<Appended> Append(SequenceId sequence, uint32_t tokens);
  // Creates a second sequence with the same tokens, worker and priority that shares every block.
  // Errors: kNotFound; kFailedPrecondition, the sequence is swapped out.
  absl::StatusOr<SequenceId> Fork(SequenceId sequence);
  // Drops all tokens but the first `tokens`. Errors: kNotFound; kInvalidArgument, it has fewer;
  // kFailedPrecondition, the sequence is swapped out.
  absl::Status Truncate(SequenceId sequence, uint64_t tokens);
  // Frees the sequence. Errors: kNotFound.
  absl::Status Free(SequenceId sequence);
  // Declares the block's bytes complete (SlotTable::Seal) and returns its slot, for the cache.
  // Errors: kNotFound; kInvalidArgument, it has no such block; kFailedPrecondition, the block is
  // not full or is swapped out.
  absl::StatusOr<SlotRef> Seal(SequenceId sequence, uint32_t block);

  // Swaps the sequences out together. A block leaves its slot if the cache does not keep it and no
  // sequence that stays has it: the returned copies name these blocks, once for each given sequence
  // that has the block. The other blocks stay and are held; a later call for sequences that are
  // already swapped out may swap out more of their blocks. Errors: kNotFound; kFailedPrecondition,
  // one of their workers has no step in flight.
  absl::StatusOr<std::vector<SwapCopy>> SwapOut(std::span<const SequenceId> sequences);
  // Returns the copies that SwapOut() would return, and changes nothing. It is for a caller that
  // makes the copies before SwapOut(), because they may fail. Errors: kNotFound.
  absl::StatusOr<std::vector<SwapCopy>> PlanSwapOut(std::span<const SequenceId> sequences) const;
  // Allocates slots for every block of the sequence that is swapped out, or for none. No other
  // sequence shares these slots, and they are not sealed, even if the blocks were. Errors:
  // kNotFound; kFailedPrecondition, the sequence is not swapped out; kResourceExhausted, too few
  // free slots.
  absl::StatusOr<std::vector<SwapCopy>> SwapIn(SequenceId sequence);

  // Removes all sequences of a worker that died, also those that are swapped out, and calls
  // SlotTable::Crash. Returns how many. O(sequences and slots).
  size_t Crash(PoolWorker worker);

  // Returns the slots by block, for the attention kernel; kNoSlot where a block is swapped out.
  // Valid until the next call that changes the sequence. Errors: kNotFound.
  absl::StatusOr<std::span<const uint32_t>> slots(SequenceId sequence) const;
  absl::StatusOr<SequenceFacts> Facts(SequenceId sequence) const;
  std::vector<SequenceId> Sequences() const;  // Returns the sequences in no particular order.
  size_t sequences() const { return sequences_.size() - free_.size(); }
  const SlotTable& slot_table() const { return *slots_; }
  uint32_t block_tokens() const { return block_tokens_; }
  // Measures the slots that sequences of this table use; O(blocks).
  Fragmentation Measure() const;
  // Aborts when an invariant of the header, or of the slot table, does not hold.
  void Audit() const;

 private:
  struct Sequence {
    SequenceFacts facts;          // started == 0: this place is free.
    std::vector<uint32_t> slots;  // Keeps its capacity for the next sequence in this place.
  };

  // Returns null if the sequence is unknown.
  Sequence* Find(SequenceId sequence);
  const Sequence* Find(SequenceId sequence) const;
  SequenceId IdOf(size_t place) const;
  // Returns how many of a block's tokens the sequence has.
  uint32_t TokensIn(const Sequence& sequence, size_t block) const;
  absl::Status CheckInFlight(PoolWorker worker) const;
  void Release(const Sequence& sequence, uint32_t slot);
  // Swaps out the blocks of a sequence that no sequence in the pool shares. REQUIRES: the sequence
  // is marked as swapped out.
  void SwapOutUnshared(SequenceId id, Sequence* sequence, std::vector<SwapCopy>* copies);
  void Forget(size_t place);

  SlotTable* const slots_;  // Borrowed.
  const uint32_t block_tokens_;
  uint64_t started_ = 0;
  std::vector<Sequence> sequences_;
  std::vector<uint32_t> free_;  // Free places in `sequences_`.
  // Number of holds, by slot, of sequences that are swapped out.
  std::vector<uint32_t> swapped_out_holds_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_TABLES_BLOCK_TABLE_H_
