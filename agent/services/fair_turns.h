// FairTurns decides in which order the calls of several tenants begin. Where nothing waits, a call
// begins at once. Of calls that wait, the next one is of the tenant whose calls had the least so
// far, by the size of their requests; those of one tenant begin in the order of their arrival. So a
// tenant that keeps thousands of calls under way makes another one's call wait for one of its own,
// not for all.
//
// A tenant that had nothing waiting begins level with the others: it saves up no turns.
#ifndef KVTIER_AGENT_SERVICES_FAIR_TURNS_H_
#define KVTIER_AGENT_SERVICES_FAIR_TURNS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "core/executor.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class FairTurns {
 public:
  // Tells of which tenant a call is, on the executor; nullopt: of none, and it begins at once, to
  // be refused.
  using WhoseCall = absl::AnyInvocable<std::optional<DomainId>()>;

  // `domains` is the number of tenants. Does not own the executor.
  FairTurns(Executor* executor, size_t domains) : executor_(executor), queues_(domains) {}
  FairTurns(FairTurns&&) = delete;

  // Runs `begin` on the executor, in its turn: before it returns where the executor has nothing
  // else to do. Any thread. REQUIRES: this outlives what `begin` begins; `cost` > 0.
  void Run(size_t cost, WhoseCall whose, Executor::Closure begin);

 private:
  struct Waiting {
    size_t cost = 0;
    Executor::Closure begin;
  };
  struct Queue {
    std::deque<Waiting> calls;
    uint64_t had = 0;  // Sum of the costs of its calls that began, from its level on.
  };
  // The call is on the executor.
  void Arrive(size_t cost, WhoseCall* whose, Executor::Closure begin);
  void BeginNext();
  void PostNext() {
    executor_->Post([this] { BeginNext(); });
  }

  Executor* const executor_;
  std::atomic<size_t> on_their_way_ = 0;  // Calls that have not arrived on the executor yet.
  // Executor thread only.
  std::vector<Queue> queues_;  // By domain.
  size_t waiting_ = 0;         // In all queues.
  uint64_t level_ = 0;         // `had` of the queue whose call began last.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SERVICES_FAIR_TURNS_H_
