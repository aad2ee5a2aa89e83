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

// Time that the agent may take for the copies of one swap, in addition to its waits.
inline constexpr absl::Duration kSwapCopyTimeout = absl::Seconds(11);
// Maximum time that a sequence may wait for its turn to come back; a limit of the agent.
inline constexpr absl::Duration kMaxSwapInTimeout = absl::Seconds(60);

struct SwapOutOptions {
  int32_t priority = 0;  // The higher, the earlier it comes back where several wait.
  // Number, from Client::BeginStep(), of the last step that writes or reads the slots; 0: no step
  // uses them any more.
  uint64_t step = 0;
  bool keep_slots = false;  // The slots stay granted, for other sequences of the caller.
};

// Move-only; the destructor drops the blocks and never blocks. Thread-compatible.
class SwappedSequence {
 public:
  SwappedSequence() = default;  // Holds no blocks.
  SwappedSequence(SwappedSequence&&) noexcept = default;
  SwappedSequence& operator=(SwappedSequence&& other) noexcept;
  ~SwappedSequence() { Release(); }
  explicit operator bool() const { return link_ != nullptr; }

  size_t blocks() const { return blocks_; }
  // Brings the blocks back in new slots and returns these; numbers() is in the order of the blocks.
  // Waits up to `timeout` for the sequence's turn: a higher priority first, then the one that was
  // swapped out earlier. Afterwards this is empty. Errors: kInvalidArgument, the timeout is out of
  // range; kResourceExhausted, its turn did not come, and it is still out; kDataLoss, the agent
  // does not have it any more; kUnavailable, the copy failed, and it is still out, or there is no
  // answer, which ends the session.
  absl::StatusOr<GrantedSlots> SwapIn(absl::Duration timeout);
  // Copies the blocks into slots that the caller has and does not use, one for each block, so that
  // the call waits for no turn. Errors also: kInvalidArgument, another number of slots, or slots
  // that the same session did not grant.
  absl::Status SwapInto(const GrantedSlots& slots, std::span<const uint32_t> numbers);
  // Drops the blocks. Idempotent, never blocks.
  void Release();

 private:
  friend class SwapOutCall;
  friend class SwapInCall;
  std::shared_ptr<AgentLink> link_;
  std::shared_ptr<Connection> connection_;  // Connection of the session that has the sequence.
  uint64_t id_ = 0;                         // Number of the sequence at the agent.
  size_t blocks_ = 0;
  size_t space_ = 0;  // Number of the blocks' space.
  uint64_t block_bytes_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_SWAPPED_SEQUENCE_H_
