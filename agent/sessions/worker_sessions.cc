#include "agent/sessions/worker_sessions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/check.h"

namespace kvtier {

WorkerSessions::WorkerSessions(NodeGpus* gpus, size_t domains, uint64_t domain_bytes,
                               uint64_t staging_bytes)
    : gpus_(gpus),
      leases_(domains),
      staging_({.session_bytes = staging_bytes, .max_domain_bytes = domain_bytes}),
      reservations_(gpus, domain_bytes / kLatePart, domains),
      shares_(kMaxSessions, domains),
      calls_(kMaxTenantCallBytes, domains) {}

void WorkerSessions::AddDomain(uint64_t domain_bytes) {
  leases_.AddDomain();
  reservations_.AddDomain(domain_bytes / kLatePart);
  shares_.AddDomain();
  calls_.AddDomain();
}

void WorkerSessions::DropDomain(DomainId domain) {
  leases_.DropDomain(domain);
  reservations_.DropDomain(domain);
  shares_.DropDomain(domain);
  calls_.DropDomain(domain);
}

absl::StatusOr<SessionId> WorkerSessions::Open(const SessionTenants& of,
                                               const SessionToken& token) {
  const DomainId payer = of.payer->domain;
  if (!shares_.MayTake(payer)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(shares_.Refuse("sessions", payer).message(), "; ", leaving_.size(),
                     " in use are of workers that hung up and may still write"));
  }
  absl::StatusOr<SessionId> id = table_.Open(of, token);
  if (id.ok()) {
    shares_.Take(payer);
    calls_.SessionOpened(token, payer);
  }
  return id;
}

absl::StatusOr<const SignalPage*> WorkerSessions::AttachToGpu(SessionId id) {
  if (!table_.IsOpen(id)) return absl::NotFoundError("the session is closed");
  const bool in_group = table_.TenantsOf(id).in_group();
  GpuTier* const gpu = in_group ? nullptr : gpus_->Of(id, table_.DomainOf(id));
  if (gpu == nullptr) return absl::NotFoundError("this node has no GPU pool for this tenant");
  return gpu->Attach(id);
}

bool WorkerSessions::Close(SessionId id) {
  if (!table_.IsOpen(id)) return leaving_.contains(id);
  const DomainId payer = table_.PayerOf(id);
  // First, so that its holds last as long as its work.
  const size_t granted = gpus_->Close(id);
  leases_.ReleaseAll(id);
  swapped_.EndSession(id);
  const bool may_write = reservations_.EndSession(id) + granted > 0;
  staging_.Close(id);
  calls_.SessionClosed(table_.TokenOf(id));
  table_.Close(id);
  if (may_write) {
    leaving_.emplace(id, payer);
    gpus_->ObserveSteps();
  } else {
    shares_.GiveBack(payer);
    gpus_->WritesOver(id);
  }
  return may_write;
}

void WorkerSessions::WritesOver(SessionId id) {
  const auto leaving = leaving_.find(id);
  if (leaving == leaving_.end()) return;
  shares_.GiveBack(leaving->second);
  leaving_.erase(leaving);
  reservations_.ReleaseAll(id);
  gpus_->WritesOver(id);
}

void WorkerSessions::ProcessGone(SessionId id) {
  // First, so that none of its steps counts any more.
  gpus_->ProcessGone(id);
  WritesOver(id);
  reservations_.Sweep();
}

bool WorkerSessions::Sweep(absl::Time now, AgentStats* stats) {
  reservations_.Sweep();
  const size_t leases = leases_.Expire(now);
  const size_t reservations = reservations_.Expire(now);
  stats->expired_leases += leases;
  stats->expired_reservations += reservations;
  return std::max(leases, reservations) == kEndedPerSweep;
}

void WorkerSessions::Audit() const {
  leases_.Audit();
  staging_.Audit();
  reservations_.Audit();
  swapped_.Audit();
  shares_.Audit();
  calls_.Audit(table_.size());
  KVT_CHECK(shares_.taken() == table_.size() + leaving_.size());
}

}  // namespace kvtier
