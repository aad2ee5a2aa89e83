// FairTurns decides in which order the calls of several tenants begin, and go on. If no call waits,
// a call begins at once. Of the calls that wait, one of the tenant whose calls had the least so far
// is next: the sum of the sizes of their requests, divided by the tenant's weight. Calls of one
// tenant begin in the order of their arrival. A long call pauses after each stretch of work if a
// call of another tenant waits, and goes on before other calls of its tenant begin. So a tenant
// that keeps thousands of calls in progress makes another one's call wait for one stretch of one of
// its own.
//
// A tenant that had nothing waiting begins level with the others: it saves up no turns.
#ifndef KVTIER_AGENT_SESSIONS_FAIR_TURNS_H_
#define KVTIER_AGENT_SESSIONS_FAIR_TURNS_H_

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "core/executor.h"
#include "core/turn_order.h"
#include "tier_host/host_tier.h"

namespace kvtier {

// Keys that a call works on between two pauses: some 100 microseconds.
inline constexpr size_t kKeysPerTurn = 256;

class FairTurns {
 public:
  // Largest cost of one turn, that of a request for kKeysPerTurn keys. A call that costs more
  // pauses, and pays for each further turn at its pause.
  static constexpr size_t kTurnCost = 224 * kKeysPerTurn;
  // Returns the tenant of a call, on the executor; nullopt: the call has none, so it begins at once
  // and is refused.
  using WhoseCall = absl::AnyInvocable<std::optional<DomainId>()>;
  class Pause;

  // `domains` is the number of tenants. Does not own the executor.
  FairTurns(Executor* executor, size_t domains) : executor_(executor), queues_(domains) {}
  FairTurns(FairTurns&&) = delete;

  // Lets calls of one more domain take turns. Executor thread only.
  void AddDomain() { queues_.emplace_back(); }
  // Gives calls of the domain `weight` times the turns of a domain of weight 1, which is the weight
  // that it has at first. Executor thread only. REQUIRES: weight > 0.
  void SetWeight(DomainId domain, uint32_t weight) {
    order_.SetWeight(static_cast<size_t>(domain), weight);
  }
  // Runs `begin` on the executor, in its tenant's turn: before Run() returns, if the executor has
  // nothing else to do. Any thread. REQUIRES: this outlives what `begin` begins; `cost` > 0.
  void Run(size_t cost, WhoseCall whose, Executor::Closure begin);
  // Returns a pause: co_await on it goes on in the tenant's next turn, or at once if no call of
  // another tenant waits. Executor thread only. REQUIRES: this outlives the task.
  Pause GiveWay(DomainId domain);

 private:
  struct Waiting {
    size_t cost = 0;
    Executor::Closure begin;
  };
  struct Queue {
    std::deque<Pause*> paused;  // Paused calls, which go on before new calls begin.
    std::deque<Waiting> calls;
    bool empty() const { return paused.empty() && calls.empty(); }
  };
  // Returns the domain's queue, to which the caller adds a waiting call. A domain whose queue was
  // empty begins to take turns.
  Queue& Enter(DomainId domain);
  Queue& QueueOf(DomainId domain) { return queues_.at(static_cast<size_t>(domain)); }
  // Returns whether a call of another tenant waits, or may be about to.
  bool OthersWait(DomainId domain);
  // Begins a call that has arrived on the executor, or lets it wait.
  void Arrive(size_t cost, WhoseCall* whose, Executor::Closure begin);
  void BeginNext();
  void PostNext();

  Executor* const executor_;
  std::atomic<size_t> on_their_way_ = 0;  // Calls that have not arrived on the executor yet.
  // Executor thread only, like the fields after it. Queues by domain, in a deque so that a queue's
  // address never changes.
  std::deque<Queue> queues_;
  size_t waiting_ = 0;  // Number of calls that wait, in all queues.
  TurnOrder order_;     // Turns of the domains.
  // Posted tasks look at it, and do nothing once this FairTurns is destroyed.
  const std::shared_ptr<const bool> is_there_ = std::make_shared<bool>(true);
};

// Pause is one pause of a call. It may be destroyed while it waits.
class [[nodiscard]] FairTurns::Pause {
 public:
  Pause(FairTurns* turns, DomainId domain) : turns_(turns), domain_(domain) {}
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;
  ~Pause();

  bool await_ready() const { return !turns_->OthersWait(domain_); }
  void await_suspend(std::coroutine_handle<> awaiting);
  void await_resume() const {}

 private:
  friend class FairTurns;
  FairTurns* const turns_;
  const DomainId domain_;
  std::coroutine_handle<> awaiting_;  // Coroutine that waits; set during the wait.
  uint64_t paid_ = 0;                 // Cost that was charged for the turn that it waits for.
};

inline FairTurns::Pause FairTurns::GiveWay(DomainId domain) { return Pause(this, domain); }

}  // namespace kvtier

#endif  // KVTIER_AGENT_SESSIONS_FAIR_TURNS_H_
