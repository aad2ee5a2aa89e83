// GrantedSlots are slots of the node's GPU pool that this worker uses as its own KV
// memory, for as long as it likes: not leased, not cached, written in place by the host. Of a
// pool that the host does not reach there are none.
//
// They are gone with the session: then another worker may get them, so whoever computes
// on them looks at valid() after a step and before it believes what came out.
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
  GrantedSlots() = default;  // None.
  GrantedSlots(GrantedSlots&&) noexcept = default;
  GrantedSlots& operator=(GrantedSlots&& other) noexcept;
  ~GrantedSlots() { Release(); }

  size_t size() const { return numbers_.size(); }
  // Of the pool, ascending, or of what was swapped in, in the order of the blocks: slot n lies at
  // n * slot_bytes() of memory().
  const std::vector<uint32_t>& numbers() const { return numbers_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  uint64_t block_bytes() const { return block_bytes_; }  // Of the space they are for.
  // The whole pool; only the granted slots of it may be touched. Empty if size() is 0.
  std::span<std::byte> memory() const;
  // Block of slot `number`. REQUIRES: it was granted.
  std::span<std::byte> slot(uint32_t number) const {
    return memory().subspan(number * slot_bytes_, block_bytes_);
  }
  // The session that granted them stands. Asks the kernel; about 1 us.
  bool valid() const;
  // Where the worker says how it uses them. Null: nobody asks, or there are none.
  std::shared_ptr<const StepPage> steps() const;
  // Copies the blocks of a sequence out of these slots into the agent's host memory, all or none,
  // and gives the slots back unless they are kept. Errors, after which all is as before:
  // kInvalidArgument, naming what cannot be; kResourceExhausted, the tenant's host memory has no
  // room for them; kUnavailable, there is no agent, or the copy failed, or there is no answer,
  // which ends the session.
  absl::StatusOr<SwappedSequence> SwapOut(std::span<const uint32_t> numbers,
                                          const SwapOutOptions& options = {});
  // Idempotent, never blocks. The memory stays mapped while keep_mapped() lives.
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
  size_t space_ = 0;  // Of the blocks that they are for.
  uint64_t slot_bytes_ = 0;
  uint64_t block_bytes_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_GRANTED_SLOTS_H_
