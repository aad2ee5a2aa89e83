// FairTurns decides in which order the calls of several tenants begin, and go on. Where nothing
// waits, a call begins at once. Of calls that wait, the next one is of the tenant whose calls had
// the least so far, by the size of their requests over its weight; those of one tenant begin in the
// order of their arrival. A long call pauses after each stretch of work, if another tenant's wait,
// and goes on before others of its tenant begin. So a tenant that keeps thousands of calls under
// way makes another one's call wait for one stretch of one of its own.
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
  // Cost of one turn at most, that of a request for kKeysPerTurn keys: what is larger pauses, and
  // pays for its next turn then.
  static constexpr size_t kTurnCost = 224 * kKeysPerTurn;
  // Tells of which tenant a call is, on the executor; nullopt: of none, and it begins at once, to
  // be refused.
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
  // Runs `begin` on the executor, in its turn: before it returns where the executor has nothing
  // else to do. Any thread. REQUIRES: this outlives what `begin` begins; `cost` > 0.
  void Run(size_t cost, WhoseCall whose, Executor::Closure begin);
  // co_await: goes on in the next turn of the tenant; at once, where no other's call waits.
  // Executor thread only. REQUIRES: this outlives the task.
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
  // Makes the domain's queue ready for what is about to wait in it.
  Queue& Enter(DomainId domain);
  Queue& QueueOf(DomainId domain) { return queues_.at(static_cast<size_t>(domain)); }
  // Returns whether a call of another tenant waits, or may be about to.
  bool OthersWait(DomainId domain);
  // Notes that the call is on the executor.
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
  // Posted work looks at it, and does nothing once this is destroyed.
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
