#include "agent/sessions/worker_sessions.h"

#include "absl/strings/str_cat.h"
#include "agent/limits.h"

namespace kvtier {

WorkerSessions::WorkerSessions(NodeGpus* gpus, uint64_t domain_bytes, uint64_t staging_bytes)
    : gpus_(gpus),
      staging_({.session_bytes = staging_bytes, .max_domain_bytes = domain_bytes}),
      reservations_(gpus, domain_bytes / kLatePart) {}

absl::StatusOr<SessionId> WorkerSessions::Open(const Tenant& tenant, const SessionToken& token) {
  if (table_.size() + leaving_.size() >= kMaxSessions) {
    return absl::ResourceExhaustedError(
        absl::StrCat("sessions: all ", kMaxSessions, " are in use, ", leaving_.size(),
                     " by workers that hung up and may still write"));
  }
  return table_.Open(tenant, token);
}

absl::StatusOr<const SignalPage*> WorkerSessions::AttachToGpu(SessionId id) {
  if (!table_.IsOpen(id)) return absl::NotFoundError("the session is closed");
  GpuTier* const gpu = gpus_->Of(id, table_.DomainOf(id));
  if (gpu == nullptr) return absl::NotFoundError("this node has no GPU pool for this tenant");
  return gpu->Attach(id);
}

bool WorkerSessions::Close(SessionId id) {
  // First, so that its holds last as long as its work.
  const size_t granted = gpus_->Close(id);
  leases_.ReleaseAll(id);
  const bool may_write = reservations_.EndSession(id) + granted > 0;
  if (may_write) leaving_.insert(id);
  staging_.Close(id);
  table_.Close(id);
  if (may_write) {
    gpus_->ObserveSteps();
  } else {
    gpus_->WritesOver(id);
  }
  return may_write;
}

void WorkerSessions::WritesOver(SessionId id) {
  if (leaving_.erase(id) == 0) return;
  reservations_.ReleaseAll(id);
  gpus_->WritesOver(id);
}

void WorkerSessions::ProcessGone(SessionId id) {
  // First, so that none of its steps counts any more.
  gpus_->ProcessGone(id);
  WritesOver(id);
  reservations_.Sweep();
}

void WorkerSessions::Sweep(absl::Time now, AgentStats* stats) {
  reservations_.Sweep();
  stats->expired_leases += leases_.Expire(now);
  stats->expired_reservations += reservations_.Expire(now);
}

void WorkerSessions::Audit() const {
  leases_.Audit();
  staging_.Audit();
  reservations_.Audit();
}

}  // namespace kvtier
