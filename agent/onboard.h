// Onboarder answers a get: it brings the longest prefix it can toward the GPU
// before the deadline and leases what is there. From host memory at once; from disk
// and from peers by loads that go on, and stay cached, when the asker's time is up.
//
// Executor thread only.
#ifndef KVTIER_AGENT_ONBOARD_H_
#define KVTIER_AGENT_ONBOARD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/agent_stats.h"
#include "agent/block_index.h"
#include "agent/disk_load.h"
#include "agent/fetch.h"
#include "agent/gpu_load.h"
#include "agent/leases.h"
#include "agent/load_table.h"
#include "agent/offload.h"
#include "agent/sessions.h"
#include "core/task.h"
#include "core/waits.h"

namespace kvtier {

struct OnboardRequest {
  BlockRun run;
  Tier target = Tier::kHost;  // kHost or kGpu.
  absl::Time deadline;
  bool local_only = false;
};

struct LeasedBlock {
  LeaseId lease{};
  uint64_t offset = 0;       // In the domain's arena, or in the GPU pool.
  uint64_t length = 0;       // Payload bytes.
  std::optional<Tier> from;  // Where it was when asked for; nullopt: another node.
};

struct Onboarded {
  std::vector<LeasedBlock> blocks;  // The leading run that is ready.
  absl::Time lease_deadline;
};

class Onboarder {
 public:
  struct Flows {
    DiskLoader* disk = nullptr;         // nullptr: no disk tier.
    Offloader* offloader = nullptr;     // As `disk`.
    GpuLoader* gpu = nullptr;           // nullptr: no device.
    GpuWorkers* gpu_workers = nullptr;  // As `gpu`.
    const GpuPool* gpu_pool = nullptr;  // As `gpu`.
    Fetcher* fetcher = nullptr;
    LoadTable* host_loads = nullptr;
  };
  // Does not own.
  Onboarder(Executor* executor, Waits* waits, Flows flows, BlockIndex* index,
            SessionTable* sessions, LeaseTable* leases, AgentStats* stats)
      : executor_(executor),
        waits_(waits),
        flows_(flows),
        index_(index),
        sessions_(sessions),
        leases_(leases),
        stats_(stats) {}

  // Ends by the deadline, but for microseconds of work. Errors: kFailedPrecondition,
  // the session ended meanwhile; kInvalidArgument, a GPU target without a pool for
  // this domain and space.
  Task<absl::StatusOr<Onboarded>> Onboard(OnboardRequest request);
  // Onboards to host memory with no waiter and no lease; returns how many leading
  // blocks are there or on their way.
  Task<size_t> Prefetch(BlockRun run, bool local_only);

 private:
  // A block that is ready (pinned) or on its way (load).
  struct Wanted {
    Pin pin;
    SharedLoad load;
    std::optional<Tier> from;
  };
  Task<std::vector<Wanted>> Gather(const OnboardRequest& request, Urgency urgency);
  std::optional<Wanted> WantLocal(const BlockKey& key, const OnboardRequest& request,
                                  Urgency urgency);
  Task<size_t> AwaitLeading(std::vector<Wanted>* wanted, absl::Time deadline);
  absl::StatusOr<Onboarded> GrantLeases(const OnboardRequest& request, std::vector<Wanted> ready);

  Executor* const executor_;
  Waits* const waits_;
  const Flows flows_;
  BlockIndex* const index_;
  SessionTable* const sessions_;
  LeaseTable* const leases_;
  AgentStats* const stats_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_ONBOARD_H_
