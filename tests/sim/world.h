// World is one simulated cluster: two or three nodes, a coordinator, workers, a network and the
// faults of a seed, in one thread and in virtual time.
//
// A whole world has nodes with and without a GPU, and workers of all tenants and spaces. It ends
// with a proof that everything works again. A world of GPU pools has a pool on each node and only
// workers that use its blocks. It lasts for seconds, not a minute, and ends when nothing is left
// behind: thousands of such worlds show the access checker the agent's own flows in as many orders.
#ifndef KVTIER_TESTS_SIM_WORLD_H_
#define KVTIER_TESTS_SIM_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/task_scope.h"
#include "tests/sim/coverage.h"
#include "tests/sim/faults.h"
#include "tests/sim/oracle.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_worker.h"
#include "tests/sim/trace.h"
#include "tests/testing/sim_executor.h"
#include "tests/testing/sim_network.h"
#include "tests/testing/sim_random.h"

namespace kvtier::sim {

class BurstProof;
class RecoveryProof;

enum class WorldKind { kWhole, kGpuPools };

struct WorldOptions {
  uint64_t seed = 0;
  WorldKind kind = WorldKind::kWhole;
  bool aloud = false;  // Print the trace as it grows.
};

// Outcome is the result of one seed.
struct Outcome {
  std::string failure;  // Empty: everything held.
  uint64_t hash = 0;    // Hash of the trace: equal for equal seeds, on any machine.
  uint64_t events = 0;
  uint64_t blocks_checked = 0;
  absl::Duration simulated;
  Coverage coverage;
};

class World {
 public:
  explicit World(const WorldOptions& options);
  ~World();
  Outcome Run();
  const Trace& trace() const { return trace_; }

 private:
  SimNode::Options DrawNode(size_t number);
  Identity DrawIdentity(const SimNode& node);
  void BootNodes();
  void HireWorkers();
  void KillWorker(size_t which);
  // Asks for a slot of some size, again and again, while there are faults.
  Task<void> AskForRoom(absl::Time until);
  // Lets nodes grow and shrink.
  Task<void> ChangeSizes(absl::Time until);
  // Lets tenants come to nodes, one at a time to each, and be dropped, while there are faults.
  Task<void> LetGuestsCome(absl::Time until);
  // Steps until `until`, or until a check failed; audits every so often.
  void RunUntil(absl::Time until);
  void Audit();
  // Run after the faults, when the workers have left. AwaitDisks() waits until disks that were
  // quarantined serve again. The others expect that nothing is left behind, that the coordinator's
  // picture is the truth, and that no verification failed without damage.
  void AwaitDisks();
  void ExpectQuiet();
  void ExpectTrueDirectory();
  void ExpectUndamaged();
  // Proves that fresh blocks reach every tier and node again (RecoveryProof).
  void ProveRecovery();
  Task<void> Prove(RecoveryProof* recovery, BurstProof* burst);
  bool failed() const { return oracle_.failure().has_value(); }

  struct Guest {
    uint64_t incarnation = 0;  // Incarnation of the node that was visited last; 0: none was.
    std::shared_ptr<bool> is_here;
  };

  const WorldKind kind_;
  testing::SimRandom random_;
  testing::SimRandom guests_random_;  // A source of its own, so that guests change no other draw.
  testing::SimRandom sizes_random_;   // A source for sizes of host memory, for the same reason.
  testing::SimTime time_;
  testing::SimExecutor executor_;  // Runs workers and faults.
  Trace trace_;
  Oracle oracle_;
  testing::SimNetwork network_;
  SimCoordinator coordinator_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
  std::unique_ptr<Faults> faults_;
  std::map<size_t, Guest> guests_;  // By node.
  TaskScope scope_;
};

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_WORLD_H_
