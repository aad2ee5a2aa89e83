// PagedKv keeps a worker's sequences in slots of the node's GPU pool: block tables that
// grow on demand, forks that share blocks and copy before they write, whole sequences
// swapped out to the agent's host memory, and back. The slots of a sequence that is out stay
// granted, for the other sequences.
//
// PagedKv is for pools that the host can touch (the emulated device): Append() copies at once, in
// the caller's thread, and all reads of a slot must have ended before the call that gives it up. A
// worker on a GPU uses BlockTable itself and makes the copies that it asks for. Only SwapOut() and
// SwapIn() call the agent.
//
// PagedKv tells the agent, for the agent's statistics, how much of the slots holds no token.
//
// Not thread-safe. An error changes nothing.
#ifndef KVTIER_CLIENT_PAGED_KV_H_
#define KVTIER_CLIENT_PAGED_KV_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/granted_slots.h"
#include "client/step_page.h"
#include "client/swapped_sequence.h"
#include "tier_gpu/tables/block_table.h"
#include "tier_gpu/tables/slot_table.h"

namespace kvtier {

class PagedKv {
 public:
  struct Options {
    uint32_t block_tokens = 16;  // The space's tokens_per_block; positive.
  };
  // Errors: kInvalidArgument, no slots were granted, the host does not reach them, or
  // block_tokens is 0.
  static absl::StatusOr<std::unique_ptr<PagedKv>> Create(GrantedSlots slots,
                                                         const Options& options);
  ~PagedKv();

  // Opens an empty sequence. All sequences stand in one line: a higher priority comes first, and
  // among equals the one that was opened or forked earlier. The last in line is swapped out first,
  // the first comes back first.
  SequenceId Open(int32_t priority) { return tables_.Create(kSelf, priority); }
  // Changes a sequence's priority; a fork begins with its parent's. Errors: kNotFound.
  absl::Status SetPriority(SequenceId sequence, int32_t priority) {
    return tables_.SetPriority(sequence, priority);
  }
  // Makes room for `tokens` more; a block that is shared is copied before it is written. New
  // slots are zeroed. Errors: BlockTable::Append()'s; kResourceExhausted, too few slots:
  // swap out Victims(), then retry.
  absl::Status Append(SequenceId sequence, uint32_t tokens);
  // Fork() and the functions after it change a sequence as BlockTable's functions of the same name
  // do.
  absl::StatusOr<SequenceId> Fork(SequenceId sequence);
  absl::Status Truncate(SequenceId sequence, uint64_t tokens);
  absl::Status Free(SequenceId sequence);
  // Moves sequences out of the pool, all together. Errors: kNotFound; kResourceExhausted, the
  // tenant's host memory has no room for them; kUnavailable, as GrantedSlots::SwapOut().
  absl::Status SwapOut(std::span<const SequenceId> sequences);
  // Moves a sequence back, with all its blocks or none. Errors: kNotFound; kFailedPrecondition, it
  // is not swapped out, or another that is swapped out is ahead of it in line and might wait for
  // ever if others passed it; kResourceExhausted, too few slots: sequences ahead have to end first;
  // kUnavailable, as SwappedSequence::SwapInto(); kDataLoss, blocks of it are lost for ever: free
  // it and compute it again.
  absl::Status SwapIn(SequenceId sequence);
  // Returns the sequence that may come back first; nullopt: none is out.
  std::optional<SequenceId> NextReturn() const;
  // Returns the sequences to swap out so that the beneficiary gets `slots` more. Errors:
  // PickVictims()'s.
  absl::StatusOr<std::vector<SequenceId>> Victims(SequenceId beneficiary, size_t slots) const;

  // Returns the pool's slot number of each block, for attention. Errors: kNotFound;
  // kFailedPrecondition, the sequence is out of the pool.
  absl::StatusOr<std::vector<uint32_t>> slots(SequenceId sequence) const;
  absl::StatusOr<SequenceFacts> Facts(SequenceId sequence) const { return tables_.Facts(sequence); }
  const GrantedSlots& memory() const { return granted_; }
  size_t free_slots() const { return slots_.free_slots(); }
  uint64_t swapped_bytes() const;
  // Returns how many shared blocks were copied before a write.
  uint64_t copied_blocks() const { return copied_blocks_; }
  Fragmentation Measure() const { return tables_.Measure(); }

 private:
  static constexpr PoolWorker kSelf{0};
  // Blocks of a sequence that went out in one call.
  struct Swapped {
    std::vector<uint32_t> blocks;  // Their numbers in the sequence.
    SwappedSequence held;
  };

  PagedKv(GrantedSlots slots, const Options& options);
  // A step around copies, which begin and end inside it.
  class Step;
  // Checks that no sequence that is out is ahead of it. Errors: SwapIn()'s.
  absl::Status CheckReturn(SequenceId sequence) const;
  // Has the agent bring the blocks into the slots that the copies name. Errors: SwapIn()'s.
  absl::Status BringIn(SequenceId sequence, std::span<const SwapCopy> copies);
  // Tells the agent how many bytes of the slots hold no token, when enough may have changed.
  void TellUnused();
  uint64_t UnusedBytes() const;
  std::span<std::byte> slot(uint32_t index) const {
    return granted_.slot(granted_.numbers()[index]);
  }

  const Options options_;
  GrantedSlots granted_;
  SlotTable slots_;  // Counts the granted slots from 0.
  BlockTable tables_;
  // Blocks that are out, without those that are lost.
  std::map<SequenceId, std::vector<Swapped>> swapped_;
  uint64_t copied_blocks_ = 0;
  // Page for TellUnused(); null: the agent does not ask.
  const std::shared_ptr<const StepPage> page_;
  uint64_t told_unused_ = 0;
  size_t untold_changes_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_PAGED_KV_H_
