#include "agent/gpu/reclaim_pool.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/process_id.h"
#include "core/space.h"
#include "core/status_macros.h"
#include "proto/session_wire.h"

namespace kvtier {
namespace {

bool CannotBeWatched(const ProcessId& process) {
  if (process.pid == 0) return true;
  const int watched = WatchProcess(process);
  if (watched >= 0) close(watched);
  return watched < 0 && !HasEnded(process);
}

// The kernel lets go of the lock of a process that dies before its work on the device is
// over. One of another PID namespace is gone: a container starts again when all of it is.
absl::Status AwaitEndOfAgent(const ProcessId& agent, absl::Time deadline) {
  const int process = WatchProcess(agent);
  if (process < 0) return absl::OkStatus();
  const absl::Duration left = deadline - MonotonicClock().Now();
  pollfd ended{.fd = process, .events = POLLIN, .revents = 0};
  const int count = poll(&ended, 1, static_cast<int>(absl::ToInt64Milliseconds(left)));
  close(process);
  if (count > 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the agent before this one, process ", agent.pid, ", has not ended"));
}

// Errors: kFailedPrecondition, it is not worth waiting for offers.
absl::Status CheckWorkers(const PoolLedger& ledger) {
  if (ledger.silent_sessions() > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(ledger.silent_sessions(), " sessions used it without a signal page"));
  }
  const std::vector<PoolLedger::Worker> workers = ledger.Workers();
  if (std::all_of(workers.begin(), workers.end(),
                  [](const PoolLedger::Worker& worker) { return HasEnded(worker.process); })) {
    return absl::FailedPreconditionError("no process that mapped it lives");
  }
  return absl::OkStatus();
}

// Errors: kFailedPrecondition, nobody would ever say when a worker is done.
absl::Status CheckOffers(const PoolLedger& ledger, const std::vector<OfferedPage>& pages) {
  for (const PoolLedger::Worker& worker : ledger.Workers()) {
    const bool offered = std::any_of(pages.begin(), pages.end(), [&](const OfferedPage& page) {
      return page.id == worker.page;
    });
    if (offered || !worker.has_slots || !CannotBeWatched(worker.process)) continue;
    return absl::FailedPreconditionError(
        "a worker that cannot be watched (of another PID namespace) did not offer it");
  }
  return absl::OkStatus();
}

absl::Status TakeOffers(const PoolSocket::Options& options, Device* device, PoolReclaim* reclaim) {
  KVT_RETURN_IF_ERROR(CheckWorkers(*reclaim->ledger));
  const absl::Time deadline = MonotonicClock().Now() + kPoolOfferWindow;
  KVT_RETURN_IF_ERROR(AwaitEndOfAgent(reclaim->ledger->agent(), deadline));
  KVT_ASSIGN_OR_RETURN(reclaim->socket, PoolSocket::Listen(options));
  std::unique_ptr<DeviceRegion> region;
  const auto import = [&](std::span<const int> handles) {
    absl::StatusOr<std::unique_ptr<DeviceRegion>> imported =
        device->ImportRegion(reclaim->ledger->terms().shape, handles);
    if (!imported.ok()) return imported.status();
    region = *std::move(imported);
    return absl::OkStatus();
  };
  if (!reclaim->socket->AwaitPool(deadline - kPoolOfferWindow / 2, import)) {
    reclaim->socket->TakeFewer();
    if (!reclaim->socket->AwaitPool(deadline, import)) {
      return absl::DeadlineExceededError(
          absl::StrCat("no worker offered it within ", absl::FormatDuration(kPoolOfferWindow)));
    }
  }
  const PoolTerms& terms = reclaim->ledger->terms();
  const size_t slots = region->handles() * terms.shape.handle_bytes / terms.slot_bytes;
  reclaim->ledger->Resize(region->handles(), std::min(slots, reclaim->ledger->slots()));
  KVT_RETURN_IF_ERROR(CheckOffers(*reclaim->ledger, reclaim->socket->pages()));
  reclaim->taken = {.region = std::move(region), .pages = reclaim->socket->pages()};
  return absl::OkStatus();
}

// Ledger, memory and socket of the pool before. Errors: there is none to be had, and why.
absl::StatusOr<PoolReclaim> TakeOld(const PoolLedger::Place& place, const AgentConfig& config,
                                    const TenantTable& tenants, Device* device) {
  PoolReclaim reclaim;
  KVT_ASSIGN_OR_RETURN(reclaim.ledger, PoolLedger::Open(place));
  const PoolSocket::Options options{
      .path = absl::StrCat(config.socket_dir, "/", wire::kPoolSocketName),
      .allowed_uids = config.allow_uids,
      .tenants = tenants,
      .ledger = reclaim.ledger.get()};
  KVT_RETURN_IF_ERROR(TakeOffers(options, device, &reclaim));
  reclaim.ledger->SetAgent(ThisProcess());
  Log(LogLevel::kInfo, absl::StrCat("GPU pool: a worker handed it back, ", reclaim.ledger->slots(),
                                    " slots in ", reclaim.ledger->handles(), " handles"));
  return reclaim;
}

}  // namespace

PoolReclaim ReclaimPool(const AgentConfig& config, const TenantTable& tenants, Device* device) {
  const uint64_t slot_bytes = SlotBytes(config.gpu_block_bytes);
  const PoolLedger::Place place{
      .path = absl::StrCat(config.socket_dir, "/", kPoolLedgerName),
      .terms = {.tenant =
                    config.gpu_tenant.empty() ? tenants.tenants().front().name : config.gpu_tenant,
                .device = device->name().substr(0, kMaxTermBytes),
                .shape = GpuPool::ShapeOf(config.gpu_bytes, slot_bytes, config.gpu_max_bytes),
                .slot_bytes = slot_bytes,
                .pool_bytes = config.gpu_bytes},
      .scope = ThisScope()};
  absl::StatusOr<PoolReclaim> old = TakeOld(place, config, tenants, device);
  if (old.ok()) return *std::move(old);
  if (!absl::IsNotFound(old.status())) {
    Log(LogLevel::kInfo, absl::StrCat("GPU pool: begins anew, the one before is not taken back: ",
                                      old.status().message()));
  }
  PoolReclaim fresh;
  absl::StatusOr<std::unique_ptr<PoolLedger>> ledger = PoolLedger::Create(place);
  if (ledger.ok()) {
    fresh.ledger = *std::move(ledger);
  } else {
    Log(LogLevel::kWarning,
        absl::StrCat("GPU pool: the next agent cannot take it back: ", ledger.status().message()));
  }
  return fresh;
}

}  // namespace kvtier
