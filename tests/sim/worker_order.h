// WorkerOrder tells its node's access checker about one worker process: which memory the process
// touches, and what orders that with the agent. The process's host and its compute are separate
// timelines, because a request says nothing of what a step still does.
#ifndef KVTIER_TESTS_SIM_WORKER_ORDER_H_
#define KVTIER_TESTS_SIM_WORKER_ORDER_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "tier_gpu/device/access_checker.h"
#include "tier_gpu/device/signal_page.h"

namespace kvtier::sim {

class WorkerOrder {
 public:
  using Access = AccessChecker::Access;
  using Clock = AccessChecker::VectorClock;
  enum class By { kHost, kCompute };

  // Makes an order. `agent` is the timeline of the agent's host. A null checker: the node has no
  // device, and nothing is checked.
  WorkerOrder(std::shared_ptr<AccessChecker> checker, AccessChecker::Timeline agent,
              const std::string& name);

  // Return the clock that goes with a request or its answer, or take it in: everything that the
  // sender did before is ordered before everything that the receiver does after it took the clock
  // in.
  Clock Asks();
  void AgentReceives(const Clock& asked);
  Clock AgentAnswers();
  void Receives(const Clock& answered);
  // Do the same at once, without a message.
  void Tells() { AgentReceives(Asks()); }
  void IsTold() { Receives(AgentAnswers()); }

  // Orders the compute's next work after what the host did so far.
  void Launches();
  // Notes that the compute is about to write to `word` that its step has ended.
  void Retires(const SignalWord* word);
  // HungUp() orders the agent's next work after all that the process's host did, and Gone() also
  // after its compute.
  void HungUp() { Tells(); }
  void Gone();

  void Touches(By by, Access access, std::span<const std::byte> bytes);

 private:
  const std::shared_ptr<AccessChecker> checker_;
  const AccessChecker::Timeline agent_;
  AccessChecker::Timeline host_{};
  AccessChecker::Timeline compute_{};
};

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_WORKER_ORDER_H_
