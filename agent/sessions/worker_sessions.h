// WorkerSessions are the workers of the node: the connected sessions, and the leases and slots of
// each. A session that hangs up is over at once, but slots that its process may still write stay
// taken.
//
// Executor thread only, but for calls().
#ifndef KVTIER_AGENT_SESSIONS_WORKER_SESSIONS_H_
#define KVTIER_AGENT_SESSIONS_WORKER_SESSIONS_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/agent_stats.h"
#include "agent/gpu/node_gpus.h"
#include "agent/sessions/call_shares.h"
#include "agent/sessions/leases.h"
#include "agent/sessions/reservations.h"
#include "agent/sessions/sessions.h"
#include "agent/sessions/staging.h"
#include "agent/sessions/swapped_sequences.h"
#include "agent/tenant_shares.h"

namespace kvtier {

class WorkerSessions {
 public:
  // `domains` is the number of tenants, and `domain_bytes` the host memory of each;
  // `staging_bytes` is the size of each session's region, 0: workers write the arena. Does not own
  // `gpus`.
  WorkerSessions(NodeGpus* gpus, size_t domains, uint64_t domain_bytes, uint64_t staging_bytes);

  // Adds a domain with so much host memory, for sessions to come.
  void AddDomain(uint64_t domain_bytes);
  // Guarantees the domain nothing any more. REQUIRES: it has no open session, and gets none.
  void DropDomain(DomainId domain);
  // Errors: kResourceExhausted, the paying tenant has its share of kMaxSessions; closed sessions
  // that may still write count.
  absl::StatusOr<SessionId> Open(const SessionTenants& of, const SessionToken& token);
  // Returns the session's signal page on its GPU's pool. Errors: kNotFound, the node has no pool
  // for it, as for every session in a share group, or it is closed; GpuWorkers::Attach()'s.
  absl::StatusOr<const SignalPage*> AttachToGpu(SessionId id);
  // Frees everything that the session holds, with two exceptions. GPU slots that its steps may
  // still use stay until these steps have ended, or ProcessGone(). Slots that it reserved and did
  // not commit, or was granted, stay until WritesOver() and the end of its steps, or ProcessGone().
  // Returns true if such slots are left, even of a session that was closed before. Unknown ids are
  // ignored.
  bool Close(SessionId id);
  // Notes, after Close(), that the worker's process no longer writes slots that it had reserved or
  // was granted, except in steps that have not ended. Unknown ids are ignored.
  void WritesOver(SessionId id);
  // Notes, after Close(), that the session's process is gone. Ignores unknown ids.
  void ProcessGone(SessionId id);
  // Ends leases and makes reservations late whose deadline is past, and counts both, kEndedPerSweep
  // of each at most. Frees slots that waited for steps that have ended. Returns whether it is to be
  // called again at once, because some are left.
  bool Sweep(absl::Time now, AgentStats* stats);
  void Audit() const;

  SessionTable& table() { return table_; }
  const TenantShares& shares() const { return shares_; }  // Shares of kMaxSessions.
  LeaseTable& leases() { return leases_; }
  Staging& staging() { return staging_; }
  ReservationTable& reservations() { return reservations_; }
  CallShares& calls() { return calls_; }
  SwappedSequences& swapped() { return swapped_; }

 private:
  NodeGpus* const gpus_;
  SessionTable table_;
  LeaseTable leases_;
  Staging staging_;
  ReservationTable reservations_;
  SwappedSequences swapped_;
  TenantShares shares_;
  CallShares calls_;
  // Closed sessions with slots that their workers may still write, and the domains that pay for
  // them.
  absl::flat_hash_map<SessionId, DomainId> leaving_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SESSIONS_WORKER_SESSIONS_H_
