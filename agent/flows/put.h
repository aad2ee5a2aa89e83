// Putter takes new blocks in: it hands out slots to write, and at commit takes the
// checksum and publishes. A block written in a GPU slot is gathered to host memory
// first, so that every committed block has verified bytes on the host. A block of a worker that
// stages is copied there from the session's region, in the pass that takes its sum.
//
// Executor thread only.
#ifndef KVTIER_AGENT_FLOWS_PUT_H_
#define KVTIER_AGENT_FLOWS_PUT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/agent_stats.h"
#include "agent/disk/disk_promises.h"
#include "agent/disk/offload.h"
#include "agent/gpu/node_gpus.h"
#include "agent/index/block_index.h"
#include "agent/index/evict.h"
#include "agent/index/pin.h"
#include "agent/sessions/fair_turns.h"
#include "agent/sessions/reservations.h"
#include "agent/sessions/sessions.h"
#include "core/byte_threads.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/waits.h"

namespace kvtier {

struct ReservedBlock {
  enum class State { kReserved, kPresent, kNoRoom, kPending };
  State state = State::kNoRoom;
  ReservationId id{};  // Id of the reservation, set when kReserved.
  // Offset in the domain's arena, the session's staging region, or the GPU pool.
  uint64_t offset = 0;
};

struct Reserved {
  std::vector<ReservedBlock> blocks;  // One entry for each key, in order.
  absl::Time deadline;                // Commit before.
};

class Putter {
 public:
  struct Parts {
    Executor* executor = nullptr;
    FairTurns* turns = nullptr;
    ByteThreads* byte_threads = nullptr;
    TaskScope* scope = nullptr;
    Waits* waits = nullptr;
    BlockIndex* index = nullptr;
    Evictor* evictor = nullptr;
    NodeGpus* gpus = nullptr;
    Offloader* offloader = nullptr;    // Null: no disk tier.
    DiskPromises* promises = nullptr;  // Null: no disk tier.
    SessionTable* sessions = nullptr;
    Staging* staging = nullptr;
    ReservationTable* reservations = nullptr;
    AgentStats* stats = nullptr;
  };
  explicit Putter(const Parts& parts) : parts_(parts) {}

  // Reserves a slot for each block that is not in memory yet and that no other call is putting. A
  // block that only the GPU pool has is here for a GPU target alone: nothing brings it back to host
  // memory. A block that only a disk has is reserved, too, if there is room: its worker did not get
  // it from there, and the disk's copy is proven once the block is committed (Offloader). Where no
  // disk is below host memory, a put evicts nothing of the prefix that it continues, and a run ends
  // at its first block that finds no room there, because blocks after a hole are of no use. Errors:
  // kInvalidArgument, a target that is neither kHost nor a fitting kGpu, or a block larger than a
  // slab. A block that would be promised to the disks takes its part of `room`, or else of the room
  // that their promises leave.
  absl::StatusOr<Reserved> Reserve(const BlockRun& run, Tier target, DiskQueueRoom room = {});
  // Reserves as Reserve() does, after a wait until `deadline` for the room that the disks' promises
  // leave (DiskPromises). Errors also: kFailedPrecondition, the session ended meanwhile.
  Task<absl::StatusOr<Reserved>> ReserveBy(BlockRun run, Tier target, absl::Time deadline);
  // Returns OK if bytes that are complete at the end of `step` can be committed, because the step
  // has begun or is 0. Errors: kInvalidArgument, naming the step.
  absl::Status CheckStep(SessionId session, uint64_t step) const;
  // Takes the sums of the blocks that have none yet (ReservationTable::NoteSum()), publishes the
  // blocks, and returns how many of `ids` were committed. The bytes are complete when the session's
  // `step` has retired, or now if it is 0. If the step does not retire within kCommitTimeout, or
  // its worker dies in it, the blocks are not committed, and their slots are given back. Ends
  // within kCommitTimeout: a block whose copy takes longer is published when it comes, and is not
  // counted.
  Task<size_t> Commit(SessionId session, std::vector<ReservationId> ids, uint64_t step = 0);

 private:
  struct Committing;  // State of one Commit() call: what is left and what succeeded.
  struct Reserving {  // State of one put: what is reserved for it so far.
    Tier target = Tier::kHost;
    DiskQueueRoom room;
    Reserved reserved{};
    bool refused = false;  // Whether a block of it was declined as worth no room.
    bool is_over = false;  // A block of the run found no room, so that no other gets any.
    Pin prefix{};          // Last block of the prefix so far that is in host memory.
  };
  // Place that one block of a run is to get in host memory.
  struct Wanted {
    BlockRoom room;
    uint32_t followers = 0;  // Blocks of the run after it.
  };
  absl::Status CheckTarget(const BlockRun& run, Tier target) const;
  absl::Status CheckSession(SessionId session) const;
  Reserving BeginReserving(Tier target, DiskQueueRoom room) const;
  // Reserves for the blocks of the run from `first` on, for `count` of them at most.
  absl::Status ReserveSome(const BlockRun& run, size_t first, size_t count, Reserving* reserving);
  // Returns whether the run ends at a block that got no room.
  bool EndsWithoutRoom(const BlockRun& run, const Reserving& reserving) const;
  absl::StatusOr<ReservedBlock> ReserveOne(const BlockRun& run, size_t i, Reserving* reserving);
  // Takes the slots of a block that goes to host memory, and returns where the worker writes.
  // Errors: kFailedPrecondition, it is worth no room; kResourceExhausted, there is none;
  // kInvalidArgument, it is larger than a slab.
  absl::StatusOr<uint64_t> ReserveInHost(SessionId session, const Wanted& wanted,
                                         Reserving* reserving, PendingBlock* block);
  // Takes the slot in host memory. Errors: as ReserveInHost().
  absl::StatusOr<HostSlot> TakeHostSlot(const Wanted& wanted, const PendingBlock& block,
                                        Reserving* reserving);
  // Returns the room that the disks' promises need for the blocks of the run that Reserve() would
  // reserve and promise; 0 blocks: there are none. REQUIRES: `run` outlives the task, and there is
  // a disk tier.
  Task<DiskPromises::Put> PromisedOf(const BlockRun& run, Tier target) const;
  bool IsHere(const BlockKey& key, Tier target) const;
  // Returns whether the block can be published as it is: its bytes are in place and summed.
  static bool IsReady(const PendingBlock& block);
  // Publishes those of the session's reservations that are ready, and adds the others to `unready`.
  void CommitSome(SessionId session, std::span<const ReservationId> ids, Committing* committing,
                  std::vector<PendingBlock>* unready);
  // Begins the commits of all blocks, and gives way to other tenants meanwhile.
  Task<void> CommitAll(std::vector<PendingBlock> blocks, std::shared_ptr<Committing> committing);
  // REQUIRES: the reservations await the step.
  Task<void> CommitAfterStep(SessionId session, uint64_t step, std::vector<ReservationId> ids,
                             std::shared_ptr<Committing> committing);
  // Copies blocks of the GPU pool to host memory, together and in the background, and commits them.
  Task<void> CommitGathered(std::vector<PendingBlock> blocks,
                            std::shared_ptr<Committing> committing);
  // Takes the sum of the block, or copies and sums a staged block in one pass, and publishes the
  // block unless the worker has said another sum for it. REQUIRES: the bytes are in host memory, or
  // staged.
  Task<void> CommitOne(PendingBlock block, std::shared_ptr<Committing> committing);
  // Publishes the block, as one that came at `now`. REQUIRES: the bytes are in host memory, and
  // their sum is known.
  void Publish(PendingBlock* block, absl::Time now);
  // Notes that the call is done with one block.
  void Finish(const BlockKey& key, Committing* committing);

  const Parts parts_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_PUT_H_
