// WorkerOrder is one worker process before the access checker of its node: what it
// touches, and what orders that with the agent. Its host and its compute are timelines
// of their own, so that a request says nothing of what a step still does.
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

  // `agent` is the timeline of the agent's host. A null checker: the node has no device,
  // and nothing is looked at.
  WorkerOrder(std::shared_ptr<AccessChecker> checker, AccessChecker::Timeline agent,
              const std::string& name);

  // Return, and take in, the clock that goes with a request and with its answer: all that the
  // sender did before is ordered before all that the receiver does after it has the clock.
  Clock Asks();
  void AgentReceives(const Clock& asked);
  Clock AgentAnswers();
  void Receives(const Clock& answered);
  // The same where nothing travels.
  void Tells() { AgentReceives(Asks()); }
  void IsTold() { Receives(AgentAnswers()); }

  // The compute goes on behind what the host did so far.
  void Launches();
  // The compute is about to write to the word that its step has ended.
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
