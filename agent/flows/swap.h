// SequenceSwapper takes sequences of workers out of the GPU pools into host memory and brings them
// back, for engines that preempt: all blocks of one or none, in a call each way. Sums taken on the
// way out are proven on the way back. docs/design/gpu.md#swap.
//
// A sequence that is out takes of its tenant's host memory, up to one part in kSwapPart of what the
// tenant is guaranteed: colder blocks of the tenant's own make room, never another tenant's. Host
// memory of a tenant with GPU pools does not move between tenants (Agent::HostMemoryMoves()), so
// what is out, which nothing can move, keeps no slab from leaving.
//
// Executor thread only. Long calls give way to other tenants.
#ifndef KVTIER_AGENT_FLOWS_SWAP_H_
#define KVTIER_AGENT_FLOWS_SWAP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/block_run.h"
#include "agent/gpu/node_gpus.h"
#include "agent/index/evict.h"
#include "agent/sessions/fair_turns.h"
#include "agent/sessions/sessions.h"
#include "agent/sessions/swapped_sequences.h"
#include "core/byte_threads.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/tier_stats.h"
#include "core/waits.h"
#include "tier_host/host_shares.h"
#include "tier_host/host_tier.h"

namespace kvtier {

struct SwapOutRequest {
  BlockRun run;                 // Session, and the space of the blocks; without keys.
  std::vector<uint32_t> slots;  // Slots that the session was granted, at least one.
  uint64_t step = 0;  // Last step that writes or reads the slots; 0: no step does any more.
  int32_t priority = 0;
  bool keep_slots = false;  // Whether the session keeps the slots.
};

struct SwapInRequest {
  SessionId session{};
  SwapId id{};
  std::vector<uint32_t> slots;  // Slots that the session was granted, for the first blocks.
  absl::Time deadline;          // End of the wait for slots for the other blocks.
};

class SequenceSwapper {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    Executor* executor = nullptr;
    FairTurns* turns = nullptr;
    ByteThreads* byte_threads = nullptr;
    TaskScope* scope = nullptr;
    Waits* waits = nullptr;
    const HostTier* host = nullptr;
    const HostShares* shares = nullptr;
    Evictor* evictor = nullptr;
    NodeGpus* gpus = nullptr;
    const SessionTable* sessions = nullptr;
    SwappedSequences* swapped = nullptr;
    TierStats* stats = nullptr;  // Statistics of host memory.
  };
  explicit SequenceSwapper(const Parts& parts) : parts_(parts) {}

  // Copies the slots out when the step has retired, and gives them back unless they are kept. Slots
  // that are given back are used again only after the session's steps. Ends within two times
  // kCommitTimeout. Errors, after which the slots are the session's as before: kInvalidArgument,
  // naming what cannot be; kResourceExhausted, no room; kAborted, the step did not retire, or the
  // copy failed or took too long; kFailedPrecondition, the session ended.
  Task<absl::StatusOr<SwapId>> SwapOut(SwapOutRequest request);
  // Brings a sequence back, and returns the slots of its blocks in their order. Errors, after which
  // it is out as before: kInvalidArgument; kResourceExhausted, its turn for slots did not come by
  // the deadline; kAborted, the copy failed. Errors after which it is gone: kNotFound, there is
  // none; kDataLoss, its bytes are damaged; kFailedPrecondition, the session ended; kUnavailable,
  // this agent stops.
  Task<absl::StatusOr<std::vector<uint32_t>>> SwapIn(SwapInRequest request);

  // Returns how many bytes of host memory the domain's swapped sequences may take.
  uint64_t QuotaOf(DomainId domain) const {
    return parts_.shares->Of(domain).guaranteed * parts_.host->slab_bytes() / kSwapPart;
  }

 private:
  enum class Way : uint8_t { kOut, kIn };
  // Blocks of one sequence on their way: both ends of each, and the sums.
  struct Moving;
  // Takes room in host memory for every block. Errors: as SwapOut().
  Task<absl::Status> ReserveHost(const BlockRun& run, Moving* moving);
  // Moves all blocks, several copies at a time. It ends when all have arrived, which sets
  // moving->done, or before: on the way out after kCommitTimeout, and when the agent stops.
  Task<void> MoveAll(std::shared_ptr<Moving> moving);
  Task<void> MoveSome(std::shared_ptr<Moving> moving, size_t first, size_t count);
  // Says how the copy on the way in ended. Errors: as SwapIn(), after which the sequence is out
  // still, or gone.
  absl::Status EndCopyBack(SwapId id, const std::shared_ptr<Moving>& moving);
  // Notes that the blocks that went out or came back too late are where they were before.
  Task<void> EndLate(SwapId id, std::shared_ptr<Moving> moving);
  // Lets the sequence stay out. False: a block of it has no host memory any more, so it is lost.
  bool StayOut(SwapId id, Moving* moving);
  // Returns the reason why a sequence that has moved is not wanted any more.
  absl::Status Unwanted(SessionId session, SwapId id) const;

  const Parts parts_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_SWAP_H_
