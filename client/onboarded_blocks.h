// OnboardedBlocks is a hit: blocks that the agent leased to the worker, readable in place. For a
// run they are its leading blocks; for a set any, each with the index of its key.
//
//   1. copy bytes(0), bytes(1), ... to where attention reads them;
//   2. wait until the copy is done;
//   3. if valid() is still true, use the copy; if not, recompute.
//
// CopyOut() does all three, and proves the bytes by the lease's sum.
//
// Step 3 is not optional: a lease has a deadline, and an agent that died and came back
// has other blocks there. Reading late is safe (the memory stays mapped while this or the
// result of keep_mapped() lives); using bytes that were read late is not.
#ifndef KVTIER_CLIENT_ONBOARDED_BLOCKS_H_
#define KVTIER_CLIENT_ONBOARDED_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/block_source.h"
#include "core/copy_sum.h"
#include "core/miss_reason.h"

namespace kvtier {

class AgentLink;
class Connection;

// Move-only; the destructor releases the leases and never blocks. Thread-compatible.
class OnboardedBlocks {
 public:
  OnboardedBlocks() = default;  // A miss: no blocks.
  OnboardedBlocks(OnboardedBlocks&&) noexcept = default;
  OnboardedBlocks& operator=(OnboardedBlocks&& other) noexcept;
  ~OnboardedBlocks() { Release(); }

  size_t size() const { return blocks_.size(); }
  bool empty() const { return blocks_.empty(); }
  // Returns the whole payload of block `i`, with the length that it was put with; empty if only a
  // device of the worker reaches it (ClientOptions::gpu_by_device). REQUIRES of all four: i <
  // size().
  std::span<const std::byte> bytes(size_t i) const;
  uint64_t offset(size_t i) const;  // Offset in the pool or arena.
  BlockSource source(size_t i) const;
  // Returns the place of the block's key in its sequence. For a run that is `i`, except in a part
  // of one (onboarded_part.h).
  size_t key_index(size_t i) const;
  // Returns why the first block that is missing did not come.
  MissReason missed() const { return missed_; }

  // Copies block `i` into the pieces, one after the other, in one pass that also takes the sum of
  // what they then hold, and compares it with the lease's. The pieces may be of any size and
  // alignment. OK: they hold the block's bytes. Errors, after each of which the pieces are not to
  // be used: kInvalidArgument, the block has no bytes here, or the pieces' sizes do not add up to
  // its own; kDataLoss, the sum differs: treat the block as a miss (the agent is told, looks at the
  // block, and drops it); kFailedPrecondition, the lease or the session ended meanwhile: treat the
  // whole hit as a miss. REQUIRES: i < size().
  absl::Status CopyOut(size_t i, std::span<const Piece> pieces) const;
  // Takes the sum of block `i` where it lies and compares it with the lease's, for readers that
  // copy the bytes by other means, as a device does. If it is called after the copy, it proves the
  // copied bytes, since a stray write would still be there. OK: they are the block's bytes. Errors:
  // as CopyOut(). REQUIRES: i < size().
  absl::Status Prove(size_t i) const;
  // Compares `sum`, which a device took of block `i` as it copied it, with the lease's. OK: the
  // bytes that it copied are the block's. Errors: as CopyOut(). REQUIRES: i < size().
  absl::Status CheckSum(size_t i, const PayloadSum& sum) const;
  // Returns whether all bytes read so far were those of the blocks: the leases have not ended and
  // the session that granted them stands. Asks the kernel; about 1 us.
  bool valid() const;
  // Ends the leases early; size() is 0 afterwards. Idempotent, never blocks.
  void Release();
  // Returns an object that keeps the memory of bytes() mapped while it lives, but not leased.
  std::shared_ptr<const void> keep_mapped() const { return keep_; }

 private:
  friend class OnboardAnswer;
  struct Block {
    std::span<const std::byte> bytes;
    uint64_t length = 0;  // Length of the payload, also if it has no bytes here.
    uint64_t offset = 0;
    BlockSource source;
    PayloadSum sum;
    size_t key_index = 0;
  };
  std::shared_ptr<AgentLink> link_;
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<const void> keep_;
  std::vector<Block> blocks_;
  std::vector<uint64_t> lease_ids_;
  absl::Time deadline_ = absl::InfinitePast();  // MonotonicClock, less a margin.
  MissReason missed_ = MissReason::kUnreachable;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_ONBOARDED_BLOCKS_H_
