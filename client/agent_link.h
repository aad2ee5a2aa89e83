// AgentLink keeps one client connected to its agent: it connects, notices the hangup, reconnects,
// registers the spaces in each new session, sends leases and reservations that were given back, and
// holds the circuit breaker. One background thread does all of it, so that no caller ever waits for
// a connection.
//
// The client and all of its leases and reservations share one link. After Stop(), and in a forked
// child, every call through it finds no agent.
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
  // Timeout of a handshake, of a ping, and of registering spaces.
  absl::Duration connect_timeout = absl::Seconds(1);
  BreakerOptions breaker;
};

struct CallEnd {
  const char* name;        // Name of the call, for error texts.
  absl::Duration timeout;  // Timeout that the call had.
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
  // Removes the space; tells the agent in the background. REQUIRES: this is no forked child.
  void RemoveSpace(size_t number) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the connection for a call of this timeout, and counts the call; null if there is no
  // agent or the breaker does not admit it. Waits for a lock only.
  std::shared_ptr<Connection> Admit(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);
  // Records how a call through Admit()'s connection ended, and returns the outcome for its caller.
  CallOutcome Ended(const std::shared_ptr<Connection>& connection, const CallEnd& end)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the current agent's limits for a space.
  SpaceLimits LimitsOf(size_t space) const ABSL_LOCKS_EXCLUDED(mu_);

  // Queues ids for the thread to send, if their session still lives. Never blocks.
  void Release(Connection* connection, ReleaseQueue::Kind kind, std::span<const uint64_t> ids)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Queues a ticket in the same way, for the current connection.
  void ReleaseTicket(const TicketId& ticket) ABSL_LOCKS_EXCLUDED(mu_);
  // Wakes the thread, which has a space to register or ids to send.
  void Wake();

  // State of the session, and its residency table; a null `view`: the agent hands out none.
  struct Residency {
    bool connected = false;
    std::shared_ptr<const ResidencyView> view;
  };
  Residency residency() const ABSL_LOCKS_EXCLUDED(mu_);
  // Has the thread ask for the next view; called by a reader that found its view retired.
  void RenewResidency();

  // Returns the GPU memory of the current connection; null without a connection or a pool.
  std::shared_ptr<const GpuMemory> gpu_memory() const ABSL_LOCKS_EXCLUDED(mu_);
  HostMemory host_memory() const ABSL_LOCKS_EXCLUDED(mu_);
  bool connected() const ABSL_LOCKS_EXCLUDED(mu_);
  ClientStats Stats() const ABSL_LOCKS_EXCLUDED(mu_);
  // Calls `change(ClientStats*)` under the lock, to change counters.
  template <typename Change>
  void Count(Change change) ABSL_LOCKS_EXCLUDED(mu_) {
    if (InForkedChild()) return;
    absl::MutexLock lock(&mu_);
    change(&stats_);
  }

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mu_);
  // Tries once to connect. Publishes the connection or notes why there is none.
  void Connect() ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<std::shared_ptr<Connection>> OpenConnection();
  // Does the work that is due on a live connection. Returns the time at which more is due.
  absl::Time Serve(const std::shared_ptr<Connection>& connection) ABSL_LOCKS_EXCLUDED(mu_);
  // Looks whether the pool has changed and maps it as it is now, even if no call has named a new
  // version: memory that the agent gives back is free only when no process maps it. Returns when to
  // look again.
  absl::Time LookAtPool(const Session& session) ABSL_LOCKS_EXCLUDED(mu_);
  // Maps the residency table that replaced a retired one. Returns when to try again.
  absl::Time LookAtResidency(const Session& session) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns whether the breaker lets the thread's own calls through.
  bool Answers() const ABSL_LOCKS_EXCLUDED(mu_);
  // Registers the spaces that this connection does not know yet.
  absl::Status RegisterMissing(Connection* connection, absl::Duration timeout);
  void Drop(const std::shared_ptr<Connection>& connection, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Sleep(const std::shared_ptr<Connection>& connection, absl::Time until);
  // Sends the breaker's probe, a Ping, if it is due. Returns false if it dropped the connection
  // instead, because the connection itself may be at fault: the next one is then the probe.
  bool Probe(const std::shared_ptr<Connection>& connection) ABSL_LOCKS_EXCLUDED(mu_);
  // Tells the breaker of a call that was not answered. Returns true if the thread has a probe to
  // plan.
  bool JudgeFailure(const CallEnd& end, const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteOpened(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteError(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  double Jitter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ClientUse use_;
  const LinkOptions options_;
  const MonotonicClock clock_;
  const FileDescriptor wake_;  // An eventfd.
  SpaceTable spaces_;
  // True once a reader has woken the thread for a table. Relaxed: it only saves later readers the
  // wake-up.
  std::atomic<bool> residency_asked_ = false;
  std::thread thread_;

  // Only the background thread uses the fields from here to `mu_`.
  bool rebuilding_ = false;  // Whether the next connection is a probe for the breaker.
  Backoff reconnect_;
  absl::Time next_try_ = absl::InfinitePast();
  absl::Time next_look_ = absl::InfinitePast();
  absl::Time next_renewal_ = absl::InfinitePast();

  mutable absl::Mutex mu_;
  std::minstd_rand random_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Connection> connection_ ABSL_GUARDED_BY(mu_);
  CircuitBreaker breaker_ ABSL_GUARDED_BY(mu_);
  ClientStats stats_ ABSL_GUARDED_BY(mu_);
  // Latencies of the calls, by the call's name.
  std::map<std::string, LatencyHistogram> latencies_ ABSL_GUARDED_BY(mu_);
  std::string logged_ ABSL_GUARDED_BY(mu_);  // Latest logged reason for having no connection.
  bool tried_ ABSL_GUARDED_BY(mu_) = false;  // Whether the first try to connect ended.
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool answered_ ABSL_GUARDED_BY(mu_) = false;  // Whether a call was answered since Connect().
  bool garbled_ ABSL_GUARDED_BY(mu_) = false;   // Whether a garbled answer opened the breaker.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_AGENT_LINK_H_
