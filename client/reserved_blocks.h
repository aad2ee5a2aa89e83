// ReservedBlocks holds one entry for each key of a Reserve; some entries have a slot to write. Fill
// a slot by CopyIn(), or take it by slot() or offset() and write it, then Commit() once: the slots
// that were taken are published, and all others are given back. A caller that took a slot and
// cannot fill it gives it back by GiveBack().
//
// After Commit() or Release() the slots no longer belong to the worker: nothing may be written to
// them, though the memory stays mapped while the result of keep_mapped() lives.
#ifndef KVTIER_CLIENT_RESERVED_BLOCKS_H_
#define KVTIER_CLIENT_RESERVED_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/copy_sum.h"

namespace kvtier {

class AgentLink;
class Connection;

struct CommitOptions {
  // Step of this worker (Client::BeginStep()) at whose end the bytes are complete: the agent waits
  // for it. 0: they are complete now.
  uint64_t step = 0;
  // Whether the commit waits until each block is on disk or will not be, and returns how many are.
  bool durable = false;
  // Longest wait of a durable commit for the disk. 0: the commit publishes and does not wait.
  // Absent: default_timeout. Client::SubmitCommit() refuses a negative one; Commit() takes it as 0.
  std::optional<absl::Duration> timeout{};
};

// Move-only; the destructor gives back what was not committed and never blocks.
// Thread-compatible; threads may take slots at the same time.
class ReservedBlocks {
 public:
  enum class State : uint8_t {
    kReserved = 0,  // Write the slot, then commit.
    kPresent = 1,   // The node has it already: nothing to do.
    kNoRoom = 2,    // No block could be evicted for it, or the agent did not answer.
    // A worker is putting it. If that worker gives up, nobody stores the block: a caller that wants
    // to be sure reserves it again a little later.
    kPending = 3,
    kNoStore = 4,  // The request is not to be stored (KeySequence::no_store).
  };

  ReservedBlocks() = default;
  ReservedBlocks(ReservedBlocks&&) noexcept = default;
  ReservedBlocks& operator=(ReservedBlocks&& other) noexcept;
  ~ReservedBlocks() { Release(); }

  size_t size() const { return blocks_.size(); }  // The number of keys asked for.
  // Returns whether the agent answered in time; otherwise nothing is known of the keys.
  bool answered() const { return answered_; }
  State state(size_t i) const;  // REQUIRES: i < size().
  // Takes the slot of block `i` and returns its bytes, as many as the block's length; empty unless
  // kReserved and not committed, or if only a device of the worker reaches it
  // (ClientOptions::gpu_by_device).
  std::span<std::byte> slot(size_t i) const;
  // Takes the slot of block `i` and returns its offset from the start of the pool or arena.
  // REQUIRES: i < size().
  uint64_t offset(size_t i) const;
  // Takes the slot of block `i` and fills it with the pieces, one after the other, in one pass
  // that also takes the block's sum, which Commit() sends: the agent need not read the bytes.
  // A later slot(i) or offset(i) forgets the sum, as the caller then writes by itself. The pieces
  // may be of any size and alignment; another thread must not write them meanwhile. Threads may
  // fill different slots at the same time. Errors: kInvalidArgument, the block has no slot, or the
  // pieces' sizes do not add up to the block's length; nothing was taken. REQUIRES: i < size().
  absl::Status CopyIn(size_t i, std::span<const ConstPiece> pieces);
  // Notes the sum of the slot of block `i`, which was taken and filled by a device that also took
  // the sum: Commit() sends it, as it sends CopyIn()'s. REQUIRES: i < size(), and the block has a
  // slot with bytes here.
  void NoteSum(size_t i, const PayloadSum& sum);
  size_t reserved() const { return reservation_ids_.size(); }  // Number of reserved slots.

  // Publishes the slots that were taken and gives the others back. Returns how many blocks were
  // published: 0 if the session ended since Reserve, fewer than were taken if some reservations
  // ended. Waits for the agent, Client's default_timeout at most. A durable commit returns how many
  // blocks are on disk within its timeout, without those that the write policy refused or that a
  // disk lost; these stay published.
  size_t Commit(const CommitOptions& options = {});
  // Gives back the slot of block `i` alone, which becomes kNoRoom, so that Commit() leaves
  // it out: for a block that BlockCodec could not encode. No slot: does nothing. Never
  // blocks. REQUIRES: i < size().
  void GiveBack(size_t i);
  // Gives everything back. Idempotent, never blocks.
  void Release();
  std::shared_ptr<const void> keep_mapped() const { return keep_; }

 private:
  friend class ReserveCall;
  friend class CommitCall;
  // SlotUse says how a slot is filled; kUnused: its block is not written.
  enum class SlotUse : uint8_t { kUnused, kByWorker, kSummed };
  struct Block {
    State state = State::kNoRoom;
    std::span<std::byte> slot{};
    uint64_t length = 0;  // Length of the payload, also if it has no bytes here.
    uint64_t offset = 0;
    std::optional<uint64_t> reservation_id{};  // Id of the reservation; absent: there is no slot.
    mutable SlotUse use = SlotUse::kUnused;
    PayloadSum copied{};  // Sum of a slot whose use is kSummed.

    // Returns the sum of a slot that the worker knows; absent: it wrote the slot by itself.
    std::optional<PayloadSum> sum() const {
      if (use != SlotUse::kSummed) return std::nullopt;
      return copied;
    }
  };
  static void NoteUse(const Block& block, SlotUse use);
  // Forgets all slots, which are no longer ours.
  static void Forget(std::vector<Block>* blocks);
  void ForgetSlots();

  std::shared_ptr<AgentLink> link_;
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<const void> keep_;
  bool answered_ = false;
  std::vector<Block> blocks_;
  std::vector<uint64_t> reservation_ids_;
  absl::Duration commit_timeout_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_RESERVED_BLOCKS_H_
