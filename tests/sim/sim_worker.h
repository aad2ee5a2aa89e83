// SimWorker is an inference process: it asks its agent for prefixes, reads the blocks that are
// leased to it, computes the rest and puts them, and now and then misbehaves. On the GPU it works
// in steps: it commits blocks that it is still writing, and reads on in blocks that it has
// released. It checks every byte when it gets a block and before it releases it.
#ifndef KVTIER_TESTS_SIM_SIM_WORKER_H_
#define KVTIER_TESTS_SIM_SIM_WORKER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/event.h"
#include "core/reuse_hint.h"
#include "core/task_scope.h"
#include "tests/sim/call.h"
#include "tests/sim/oracle.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/trace.h"
#include "tests/sim/worker_order.h"
#include "tests/testing/sim_random.h"

namespace kvtier::sim {

struct Identity {
  size_t tenant = 0;
  size_t space = 0;
  Tier target = Tier::kHost;
};

class SimWorker {
 public:
  // Parts of the world, which the worker does not own; `executor` is that of all workers.
  struct World {
    Executor* executor = nullptr;
    Trace* trace = nullptr;
    Oracle* oracle = nullptr;
  };
  SimWorker(const World& world, SimNode* node, const Identity& identity, uint64_t seed);

  // Begins random conversations, until the worker is destroyed.
  void Live();
  // Kills the worker as SIGKILL does. The agent hears of it `hangup` later and ends the session.
  // The worker's device may write until the process is gone, after twice `hangup`. REQUIRES: not
  // called from the worker's own flows.
  void Die(absl::Duration hangup);

  // Single steps, also for tests that are not random. Each returns false or 0 if the agent is gone.
  Task<bool> Connect();
  Task<void> Disconnect();
  // Puts the blocks from `from` on that the node lacks; returns how many were committed.
  Task<size_t> Put(std::vector<EngineKey> keys, size_t from);
  // Reads the leading run that it gets within `timeout`, holds it for `hold`, and
  // returns its length.
  Task<size_t> Get(std::vector<EngineKey> keys, absl::Duration timeout, absl::Duration hold);

  // Returns how many of the blocks host memory or a disk of the node has. REQUIRES: it is
  // connected.
  size_t CountHere(const std::vector<EngineKey>& keys) const;

  // Returns how many blocks the node had when the agent was told of their next use.
  uint64_t advised_blocks() const { return advised_blocks_; }
  uint64_t kept_blocks() const { return kept_blocks_; }
  uint64_t dropped_blocks() const { return dropped_blocks_; }

  SimNode* node() const { return node_; }
  const Identity& identity() const { return identity_; }

 private:
  struct Reserving;  // A put in progress: its slots, and their keys.

  Task<void> Converse();
  Task<void> Match(std::vector<EngineKey> keys);
  Task<void> Prefetch(std::vector<EngineKey> keys);
  // Keeps the blocks for some seconds, or now and then drops them with all their descendants.
  Task<void> KeepOrDrop(std::vector<EngineKey> keys);
  // Advises the agent of the blocks' next use, when their request has ended.
  Task<void> Advise(std::vector<EngineKey> keys);
  Task<void> Write(const Reserving& put, WorkerOrder::By by);
  // Writes in a step that the agent knows already; the bytes are complete when the step ends.
  Task<void> WriteInStep(std::shared_ptr<const Reserving> put, uint64_t step,
                         std::shared_ptr<Event> written);
  Task<size_t> Commit(const Reserving& put, uint64_t step);
  // Begins the next step and returns its number; 0: the agent keeps no steps of this session.
  uint64_t BeginStep();
  void EndStep(uint64_t step);
  void Check(const std::vector<EngineKey>& keys, const Onboarded& onboarded, WorkerOrder::By by);
  void Release(const std::vector<LeaseId>& leases);
  // Notes that the worker reads under its leases until `deadline` and no longer. Only time orders
  // these reads with the agent.
  void LetRunOut(absl::Time deadline);
  bool Connected() const;
  absl::StatusOr<BlockRun> Name(const std::vector<EngineKey>& keys, size_t from) const;
  absl::Duration DrawHold();

  const World world_;
  SimNode* const node_;
  const Identity identity_;
  const SpaceSpec space_;
  DomainId domain_{};
  testing::SimRandom random_;
  testing::SimRandom
      keeps_;  // Draws what is kept and dropped; apart, so that all other draws stay the same.
  bool random_behaviour_ = false;  // Set by Live(): delays, abandons and forgets at random.
  uint64_t incarnation_ = 0;       // Incarnation of the agent that the session is with.
  ReuseHint hint_;                 // Hint of the conversation's requests.
  uint64_t advised_blocks_ = 0;
  uint64_t kept_blocks_ = 0;
  uint64_t dropped_blocks_ = 0;
  std::optional<SessionId> session_;
  uint32_t space_id_ = 0;
  const SignalPage* page_ = nullptr;  // Page of the session; null: it has none.
  uint64_t begun_ = 0;
  std::shared_ptr<WorkerOrder> order_;        // The process's; null: it has not met its agent.
  std::shared_ptr<const Reserving> writing_;  // The put whose slots it still writes; null: none.
  std::unique_ptr<TaskScope> scope_;
};

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_SIM_WORKER_H_
