// AgentLink keeps one client in touch with its agent: it connects, notices the hangup,
// connects again, tells every new session of the spaces, sends what was given back,
// and holds the circuit breaker. One background thread does all of it, so that no
// caller ever waits for a connection.
//
// Client and every lease and reservation share it; after Stop(), and in a forked child, it only
// says "absent".
#ifndef KVTIER_CLIENT_AGENT_LINK_H_
#define KVTIER_CLIENT_AGENT_LINK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/backoff.h"
#include "client/call_outcome.h"
#include "client/circuit_breaker.h"
#include "client/client_stats.h"
#include "client/connection.h"
#include "client/fork_guard.h"
#include "client/host_memory.h"
#include "client/residency_view.h"
#include "client/session.h"
#include "client/space_table.h"
#include "core/clock.h"
#include "core/tier_stats.h"

namespace kvtier {

struct LinkOptions {
  SessionOptions session;
  absl::Duration connect_timeout = absl::Seconds(1);  // Handshake, ping and spaces.
  BreakerOptions breaker;
};

struct CallEnd {
  const char* name;        // Of the call, for error texts.
  absl::Duration timeout;  // It was given.
  absl::Duration took;
  absl::Status status;
};

// Thread-safe.
class AgentLink {
 public:
  explicit AgentLink(LinkOptions options);
  ~AgentLink();  // REQUIRES: stopped.

  // Starts the thread, and waits until it is connected or knows that it cannot be, for
  // connect_timeout at most.
  void Start() ABSL_LOCKS_EXCLUDED(mu_);
  // Hangs up and joins the thread. Idempotent.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

  SpaceTable& spaces() { return spaces_; }
  // The agent is told in the background. REQUIRES: this is no forked child.
  void RemoveSpace(size_t number) ABSL_LOCKS_EXCLUDED(mu_);

  // The connection for a call of this timeout, counted as a call; null when there is no agent
  // or the breaker does not admit it. Takes no longer than a lock.
  std::shared_ptr<Connection> Admit(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);
  // Tells how a call through Admit()'s connection ended, and returns what that is to its caller.
  CallOutcome Ended(const std::shared_ptr<Connection>& connection, const CallEnd& end)
      ABSL_LOCKS_EXCLUDED(mu_);

  // What the agent of now says of a space.
  SpaceLimits LimitsOf(size_t space) const ABSL_LOCKS_EXCLUDED(mu_);

  // Never blocks: queues ids for the thread to send, if their session still lives.
  void Release(Connection* connection, ReleaseQueue::Kind kind, std::span<const uint64_t> ids)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The same with a ticket, through the connection of now.
  void ReleaseTicket(const TicketId& ticket) ABSL_LOCKS_EXCLUDED(mu_);
  // The thread has something to do: a space to register, ids to send.
  void Wake();

  // What the node has, by the connection of now. The view is null where the agent hands out none.
  struct Residency {
    bool connected = false;
    std::shared_ptr<const ResidencyView> view;
  };
  Residency residency() const ABSL_LOCKS_EXCLUDED(mu_);
  // The view was found to be retired: the thread asks for the next one.
  void RenewResidency();

  // Of the connection of now; null: there is none, or it has no pool.
  std::shared_ptr<const GpuMemory> gpu_memory() const ABSL_LOCKS_EXCLUDED(mu_);
  HostMemory host_memory() const ABSL_LOCKS_EXCLUDED(mu_);
  bool connected() const ABSL_LOCKS_EXCLUDED(mu_);
  ClientStats Stats() const ABSL_LOCKS_EXCLUDED(mu_);
  // Changes counters: `change(ClientStats*)` under the lock.
  template <typename Change>
  void Count(Change change) ABSL_LOCKS_EXCLUDED(mu_) {
    if (InForkedChild()) return;
    absl::MutexLock lock(&mu_);
    change(&stats_);
  }

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mu_);
  // One try. Publishes the connection or notes why there is none.
  void Connect() ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<std::shared_ptr<Connection>> OpenConnection();
  // Does what a live connection needs now. Returns when it needs something next.
  absl::Time Serve(const std::shared_ptr<Connection>& connection) ABSL_LOCKS_EXCLUDED(mu_);
  // Follows a pool that grows and shrinks, also where no call tells of it: memory that is
  // given back is free only when nobody maps it. Says when to look again.
  absl::Time LookAtPool(const Session& session) ABSL_LOCKS_EXCLUDED(mu_);
  // Maps the residency table that has taken a retired one's place. Says when to try again.
  absl::Time LookAtResidency(const Session& session) ABSL_LOCKS_EXCLUDED(mu_);
  // The breaker lets chores through.
  bool Answers() const ABSL_LOCKS_EXCLUDED(mu_);
  // Registers what this connection does not know yet.
  absl::Status RegisterMissing(Connection* connection, absl::Duration timeout);
  void Drop(const std::shared_ptr<Connection>& connection, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Sleep(const std::shared_ptr<Connection>& connection, absl::Time until);
  // Sends the breaker's probe, if it is due: a Ping, or, where that would say too little, a
  // new connection. False: that one is to be made.
  bool Probe(const std::shared_ptr<Connection>& connection) ABSL_LOCKS_EXCLUDED(mu_);
  // Tells the breaker of a call that was not answered. True: the thread has a probe to plan.
  bool JudgeFailure(const CallEnd& end, const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteOpened(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteError(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  double Jitter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ClientUse use_;
  const LinkOptions options_;
  const MonotonicClock clock_;
  const FileDescriptor wake_;  // An eventfd.
  SpaceTable spaces_;
  // A reader has woken the thread for a table. Relaxed: it only saves later readers the same.
  std::atomic<bool> residency_asked_ = false;
  std::thread thread_;

  // Of the thread only.
  bool rebuilding_ = false;  // The next connection is a probe of the breaker's.
  Backoff reconnect_;
  absl::Time next_try_ = absl::InfinitePast();
  absl::Time next_look_ = absl::InfinitePast();
  absl::Time next_renewal_ = absl::InfinitePast();

  mutable absl::Mutex mu_;
  std::minstd_rand random_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Connection> connection_ ABSL_GUARDED_BY(mu_);
  CircuitBreaker breaker_ ABSL_GUARDED_BY(mu_);
  ClientStats stats_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, LatencyHistogram> latencies_ ABSL_GUARDED_BY(mu_);  // By name of the call.
  std::string logged_ ABSL_GUARDED_BY(mu_);  // The latest reason for being unconnected.
  bool tried_ ABSL_GUARDED_BY(mu_) = false;  // The first try to connect has ended.
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool answered_ ABSL_GUARDED_BY(mu_) = false;  // A call was, since the last Connect().
  bool garbled_ ABSL_GUARDED_BY(mu_) = false;   // The breaker was opened by such an answer.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_AGENT_LINK_H_
