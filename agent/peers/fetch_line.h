// FetchLine is where requests wait for a fetch from another node: all fetches of the node, or those
// at the peers that have the blocks, are in use. When a fetch is free, the tenants take turns, and
// the requests of one tenant begin in the order in which they came; one that waits for a peer
// without a free fetch holds up no other. The tenants divide the places (StreamShares), so the
// requests of one cannot fill the line.
//
// Executor thread only.
#ifndef KVTIER_AGENT_PEERS_FETCH_LINE_H_
#define KVTIER_AGENT_PEERS_FETCH_LINE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "agent/limits.h"
#include "agent/peers/peer_standings.h"
#include "agent/peers/stream_shares.h"
#include "agent/tenants.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/turn_order.h"
#include "core/waits.h"

namespace kvtier {

class FetchLine {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    Executor* executor = nullptr;
    TaskScope* scope = nullptr;
    Waits* waits = nullptr;
    const TenantTable* tenants = nullptr;
    PeerStandings* standings = nullptr;
  };
  // Ask is one request that waits.
  struct Ask {
    DomainId payer{};                // Domain whose fetches it takes.
    std::vector<std::string> peers;  // Addresses of the peers that may begin.
    size_t places = 1;               // Number of places that it takes in the line, 1 at least.
    // Begins what can begin. Returns whether the wait is over: something began, or nothing ever
    // will.
    absl::AnyInvocable<bool()> begin;
    // Returns whether nobody wants the blocks any more. Null: somebody does.
    absl::AnyInvocable<bool()> is_gone;
  };

  explicit FetchLine(const Parts& parts) : parts_(parts) {}
  FetchLine(const FetchLine&) = delete;
  FetchLine& operator=(const FetchLine&) = delete;

  // Returns how many places more the tenant may take.
  size_t FreeFor(DomainId payer) const;
  // Waits until `ask.begin` has returned true, which is called when one of the peers may begin a
  // fetch; returns false if `deadline` came first, or soon after `ask.is_gone` returns true.
  // REQUIRES: the tenant may take `ask.places` places; what the functions use outlives the task.
  Task<bool> Wait(Ask ask, absl::Time deadline);
  // Lets those begin that may. Called when a fetch has ended; while requests wait, also at every
  // kFetchLineInterval, because a peer may begin fetches again after a time.
  void Pump();
  size_t waiting() const { return waiting_; }  // Number of requests that wait.

 private:
  class Place;
  // Returns the first request of the tenant that this pump has not looked at and that may begin;
  // null: there is none.
  Place* NextOf(size_t party);
  Task<void> PumpAtTimes();
  void DropGone();

  const Parts parts_;
  StreamShares places_{kMaxFetchPlaces};
  std::vector<std::list<Place*>> lines_;  // Requests of each domain, the first one in front.
  TurnOrder order_;                       // Turns of the domains.
  size_t waiting_ = 0;
  uint64_t pumps_ = 0;  // Number of pumps so far.
  bool pumping_ = false;
  bool pump_again_ = false;  // Whether a fetch ended while a pump ran.
  bool pumps_at_times_ = false;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_PEERS_FETCH_LINE_H_
