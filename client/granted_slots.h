// GrantedSlots holds slots of the node's GPU pool that this worker uses as its own KV memory for as
// long as it likes. They are not leased and hold no blocks; the host writes them in place. A pool
// that the host does not reach grants none.
//
// The grant ends with the session, and another worker may get the slots then. So a worker that
// computes in them checks valid() after a step, before it uses the result.
#ifndef KVTIER_CLIENT_GRANTED_SLOTS_H_
#define KVTIER_CLIENT_GRANTED_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "client/block_memory.h"
#include "client/gpu_memory.h"
#include "client/swapped_sequence.h"

namespace kvtier {

class AgentLink;
class Connection;

// Move-only; the destructor gives the slots back and never blocks. Thread-compatible.
class GrantedSlots {
 public:
  GrantedSlots() = default;  // Holds no slots.
  GrantedSlots(GrantedSlots&&) noexcept = default;
  GrantedSlots& operator=(GrantedSlots&& other) noexcept;
  ~GrantedSlots() { Release(); }

  size_t size() const { return numbers_.size(); }
  // Returns the slots' numbers in the pool: ascending, or after a swap-in in the order of the
  // blocks. Slot n lies at n * slot_bytes() of memory().
  const std::vector<uint32_t>& numbers() const { return numbers_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  // Returns block_bytes of the space that the slots are for.
  uint64_t block_bytes() const { return block_bytes_; }
  // Returns the whole pool, of which only the granted slots may be touched. Empty if size() is 0.
  std::span<std::byte> memory() const;
  // Returns the block in slot `number`. REQUIRES: it was granted.
  std::span<std::byte> slot(uint32_t number) const {
    return memory().subspan(number * slot_bytes_, block_bytes_);
  }
  // Returns whether the session that granted them still stands. Asks the kernel; about 1 us.
  bool valid() const;
  // Returns the page in which the worker tells the agent how it uses the slots; null: the agent
  // does not ask, or there are no slots.
  std::shared_ptr<const StepPage> steps() const;
  // Copies the blocks of a sequence out of these slots into the agent's host memory, all or none,
  // and gives the slots back unless they are kept. After an error all is as before, except that a
  // missing answer ends the session. Errors: kInvalidArgument, naming the argument;
  // kResourceExhausted, the tenant's host memory has no room for the blocks; kUnavailable, there is
  // no agent, the copy failed, or no answer came.
  absl::StatusOr<SwappedSequence> SwapOut(std::span<const uint32_t> numbers,
                                          const SwapOutOptions& options = {});
  // Gives the slots back. Idempotent, never blocks. The memory stays mapped while the result of
  // keep_mapped() lives.
  void Release();
  std::shared_ptr<const void> keep_mapped() const { return memory_.keep(); }

 private:
  friend class SwapInCall;
  friend class SwapOutCall;
  friend class SwappedSequence;
  friend class TakeSlotsCall;
  std::shared_ptr<AgentLink> link_;
  std::shared_ptr<Connection> connection_;
  BlockMemory memory_;
  std::vector<uint32_t> numbers_;
  size_t space_ = 0;  // Number of the space that they are for.
  uint64_t slot_bytes_ = 0;
  uint64_t block_bytes_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_GRANTED_SLOTS_H_
