// Onboarder answers a get: it brings the longest prefix it can, or what it can of a set, toward the
// GPU before the deadline and leases what is there. Blocks in host memory are there at once. Blocks
// of disks and peers come by loads, which go on after the deadline: their blocks stay on the node.
//
// Executor thread only.
#ifndef KVTIER_AGENT_FLOWS_ONBOARD_H_
#define KVTIER_AGENT_FLOWS_ONBOARD_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/agent_stats.h"
#include "agent/disk/disk_load.h"
#include "agent/disk/offload.h"
#include "agent/flows/fetch.h"
#include "agent/gpu/node_gpus.h"
#include "agent/index/block_index.h"
#include "agent/index/load_table.h"
#include "agent/sessions/fair_turns.h"
#include "agent/sessions/leases.h"
#include "agent/sessions/sessions.h"
#include "core/checksum.h"
#include "core/miss_reason.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/waits.h"

namespace kvtier {

struct OnboardRequest {
  BlockRun run;
  Tier target = Tier::kHost;  // kHost or kGpu.
  absl::Time deadline;
  bool local_only = false;
  GpuTier* gpu = nullptr;                  // GPU of a target of kGpu, set by the Onboarder.
  Urgency urgency = Urgency::kForeground;  // Urgency of loads from a disk.
  // Whether the caller has hung up; it outlives the request. Null: nobody knows.
  const bool* is_cancelled = nullptr;
};

struct LeasedBlock {
  size_t index = 0;  // Index of the block in the run or set that was asked for.
  LeaseId lease{};
  uint64_t offset = 0;  // Offset in the domain's arena or in the GPU pool.
  uint64_t length = 0;  // Payload bytes.
  PayloadSum sum;       // Sum of the payload there.
  // Tier that had the block when it was asked for; nullopt: another node.
  std::optional<Tier> from;
};

struct Onboarded {
  // Blocks that are ready, in the order of the keys: of a run the leading ones, of a set any.
  std::vector<LeasedBlock> blocks;
  MissReason missed = MissReason::kNone;  // Reason for which the first missing block did not come.
  absl::Time lease_deadline;
};

class Onboarder {
 public:
  struct Flows {  // Objects that the class uses and does not own.
    Executor* executor = nullptr;
    FairTurns* turns = nullptr;
    Waits* waits = nullptr;
    BlockIndex* index = nullptr;
    SessionTable* sessions = nullptr;
    LeaseTable* leases = nullptr;
    AgentStats* stats = nullptr;
    DiskLoader* disk = nullptr;      // Null: no disk tier.
    Offloader* offloader = nullptr;  // Null: no disk tier.
    NodeGpus* gpus = nullptr;
    Fetcher* fetcher = nullptr;
    LoadTable* host_loads = nullptr;
    const Evictor* evictor = nullptr;
    TaskScope* scope = nullptr;
  };
  // A block that is ready (pinned) or on its way (load); neither: it is missing.
  struct Wanted {
    Pin pin;
    SharedLoad load;
    std::optional<Tier> from;
  };
  // Outcome of one request before its leases are granted: of a run the leading blocks, of a set one
  // entry for each key.
  struct Brought {
    std::vector<Wanted> blocks;
    MissReason missed = MissReason::kNone;  // Reason for which the first missing block is missing.
    // Place of the first missing block, as far as it is known.
    size_t first_missing = std::numeric_limits<size_t>::max();
    int rounds = 0;              // Calls of GatherMore() so far that asked for all that they found.
    std::vector<size_t> absent;  // Places of the keys of a set that are still missing.
    std::vector<size_t> found;   // Places of a set that the last round found on other nodes.
    // Block that other nodes did not bring in the last round, and why.
    Fetcher::Missed elsewhere;
  };
  // Parts is one request whose blocks are handed over as they become ready:
  // agent/flows/onboard_parts.h.
  class Parts;

  explicit Onboarder(const Flows& flows) : flows_(flows) {}

  // Brings and leases what one request wants. Ends by the deadline, but for microseconds of work.
  // Errors: kFailedPrecondition, the session ended meanwhile; kInvalidArgument, a GPU target
  // without a pool for this domain and space.
  Task<absl::StatusOr<Onboarded>> Onboard(OnboardRequest request);
  // Onboards several sequences at once: the leases of all begin when the last of them is ready, or
  // its deadline has come.
  Task<absl::StatusOr<std::vector<Onboarded>>> OnboardAll(std::vector<OnboardRequest> requests);
  // BringAll() and GrantLeases() are the two halves of OnboardAll(), for a caller that pins the
  // blocks in between. BringAll() brings the blocks that each request wants, and its result pins
  // them. GrantLeases() grants leases of them. REQUIRES: `requests` outlive the task. Errors of
  // GrantLeases(): kFailedPrecondition, the session is over.
  Task<std::vector<Brought>> BringAll(const std::vector<OnboardRequest>* requests);
  absl::StatusOr<Onboarded> GrantLeases(const OnboardRequest& request, Brought brought);
  // Returns whether the block of `brought` is pinned. Drops a pinned block that was found to be
  // damaged meanwhile (BlockIndex::Condemn), and in a run all blocks after it.
  bool IsReady(const OnboardRequest& request, size_t index, Brought* brought);
  BlockIndex* index() const { return flows_.index; }
  // Onboards to host memory with no waiter and no lease; returns how many leading
  // blocks are there or on their way.
  Task<size_t> Prefetch(BlockRun run, bool local_only);
  // Ends at once the requests that are handed over in parts of a session that is over.
  void SessionEnded(SessionId session);

 private:
  struct Bringing;  // State of one BringAll() call.
  // Finds the pool of a GPU target.
  absl::Status FindTarget(OnboardRequest* request) const;
  absl::Status CheckSession(const OnboardRequest& request) const;
  Task<Brought> Bring(OnboardRequest request);
  Task<void> BringOne(OnboardRequest request, size_t index, std::shared_ptr<Bringing> bringing);
  Task<Brought> Gather(const OnboardRequest& request, Urgency urgency);
  // Makes one round of Gather(): first it takes the blocks of this node, without a wait, then those
  // of other nodes. Returns false if it was the last round.
  Task<bool> GatherMore(const OnboardRequest& request, Urgency urgency, Brought* brought);
  Task<bool> GatherRun(const OnboardRequest& request, Urgency urgency, Brought* brought);
  Task<bool> GatherSet(const OnboardRequest& request, Urgency urgency, Brought* brought);
  // Notes why a run ends where it does, once the last round of gathering is over.
  void EndGather(const OnboardRequest& request, Brought* brought);
  std::optional<Wanted> WantLocal(const BlockKey& key, const OnboardRequest& request,
                                  Urgency urgency);
  // Returns why a block is missing that no tier has (kAbsent or kEvicted), or that host memory has
  // and that the asker may not pin (kNoRoom).
  MissReason WhyAbsent(const BlockKey& key) const;
  // Returns why gathering found no way to bring the block: as WhyAbsent(), or that a disk or
  // another node has it and did not begin to bring it.
  MissReason WhyNotGathered(const BlockKey& key, const Brought& brought) const;
  // Returns how long the request waits for a fetch from another node.
  Fetcher::Asker AskerOf(const OnboardRequest& request, Urgency urgency) const;
  // Waits for blocks that are on their way, in order, and drops those that do not come.
  Task<void> AwaitReady(Brought* brought, const OnboardRequest& request);
  // Waits until a block's load ends. Returns whether the block is pinned; if not, sets `missed`.
  // REQUIRES: the block is pinned or has a load.
  Task<bool> AwaitOne(const OnboardRequest& request, Wanted* wanted, MissReason* missed);
  // Returns, for a load that has ended, whether the block is pinned; if not, sets `missed`.
  bool Settle(const OnboardRequest& request, Wanted* wanted, MissReason* missed);
  // Drops block `index`, which does not come, and in a run all after it.
  void Drop(const OnboardRequest& request, size_t index, MissReason missed, Brought* brought);
  // Grants a lease of the block. Returns false if the block gets none; then no later block gets one
  // either.
  bool GrantOne(const OnboardRequest& request, size_t index, Wanted wanted, Onboarded* onboarded);
  // Grants leases of `brought` as GrantLeases() does, and gives way to other tenants meanwhile.
  // REQUIRES: `request` outlives the task.
  Task<absl::StatusOr<Onboarded>> GrantInTurns(const OnboardRequest& request, Brought brought);
  // Grants leases of the blocks from `first` on, of `count` at most. Returns false if there was no
  // room for a lease, in which case no later block gets one.
  bool GrantSome(const OnboardRequest& request, size_t first, size_t count, Brought* brought,
                 Onboarded* onboarded);
  // Tells the orders of eviction that the blocks, which are leased, are used; returns those of host
  // memory.
  std::vector<const HostBlock*> Touch(const OnboardRequest& request,
                                      std::span<const LeasedBlock> leased);
  // Calls Touch(), and tells the disk tier of the use.
  void NoteUse(const OnboardRequest& request, std::span<const LeasedBlock> leased);

  const Flows flows_;
  absl::flat_hash_set<Parts*> parts_;  // Requests in progress.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_ONBOARD_H_
