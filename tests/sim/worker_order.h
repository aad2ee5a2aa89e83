// WorkerOrder tells the access checker of its node of one worker process: which memory it touches,
// and what orders that with the agent. The process's host and its compute are separate timelines,
// because a request says nothing of what a step still does.
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

  // These return the clock that goes with a request or its answer, or take it in: everything that
  // the sender did before is ordered before everything that the receiver does after it has the
  // clock.
  Clock Asks();
  void AgentReceives(const Clock& asked);
  Clock AgentAnswers();
  void Receives(const Clock& answered);
  // Do the same at once, without a message.
  void Tells() { AgentReceives(Asks()); }
  void IsTold() { Receives(AgentAnswers()); }

  // Orders the compute's next work after what the host did so far.
  void Launches();
  // Notes that the compute is about to write to the word that its step has ended.
  void Retires(const SignalWord* word);
  // The agent was told that nothing of the process runs on the host any more; nowhere.
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
