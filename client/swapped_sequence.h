// SwappedSequence is a sequence whose blocks the agent holds in its host memory since
// GrantedSlots::SwapOut() copied them out of the GPU pool. It ends with the session, as the slots
// do.
#ifndef KVTIER_CLIENT_SWAPPED_SEQUENCE_H_
#define KVTIER_CLIENT_SWAPPED_SEQUENCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kvtier {

class AgentLink;
class Connection;
class GrantedSlots;

// How long the agent may take for the copies of one swap, in addition to what it waits for.
inline constexpr absl::Duration kSwapCopyTimeout = absl::Seconds(11);
// The longest that a sequence waits for its turn to come back, as the agent has it.
inline constexpr absl::Duration kMaxSwapInTimeout = absl::Seconds(60);

struct SwapOutOptions {
  int32_t priority = 0;  // The higher, the earlier it comes back where several wait.
  // Number of Client::BeginStep() of the step that writes or reads the slots last; 0: none does any
  // more.
  uint64_t step = 0;
  bool keep_slots = false;  // They stay granted, for other sequences of the caller's.
};

// Move-only; the destructor drops the blocks and never blocks. Thread-compatible.
class SwappedSequence {
 public:
  SwappedSequence() = default;  // None.
  SwappedSequence(SwappedSequence&&) noexcept = default;
  SwappedSequence& operator=(SwappedSequence&& other) noexcept;
  ~SwappedSequence() { Release(); }
  explicit operator bool() const { return link_ != nullptr; }

  size_t blocks() const { return blocks_; }
  // Brings the blocks back in slots of their own, which wait up to `timeout` for their turn: the
  // higher priority first, then who swapped out first. Then this is none. The slots' numbers() are
  // in the order of the blocks. Errors: kInvalidArgument, the timeout; kResourceExhausted, its turn
  // did not come, and it is out still; kDataLoss, the agent has it no more; kUnavailable, the
  // copy failed, and it is out still, or there is no answer, which ends the session.
  absl::StatusOr<GrantedSlots> SwapIn(absl::Duration timeout);
  // Does the same into slots of the caller's own that nobody uses, one for each block: nothing
  // waits. Errors also: kInvalidArgument, not so many, or not granted by the same session.
  absl::Status SwapInto(const GrantedSlots& slots, std::span<const uint32_t> numbers);
  // Drops the blocks. Idempotent, never blocks.
  void Release();

 private:
  friend class SwapOutCall;
  friend class SwapInCall;
  std::shared_ptr<AgentLink> link_;
  std::shared_ptr<Connection> connection_;  // It ends with it.
  uint64_t id_ = 0;                         // The agent's name for it.
  size_t blocks_ = 0;
  size_t space_ = 0;  // Of their blocks.
  uint64_t block_bytes_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_SWAPPED_SEQUENCE_H_
