// WorkerService's RPC by which workers give back what they hold.
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agent/services/id_lists.h"
#include "agent/services/worker_service.h"
#include "agent/services/worker_wire.h"
#include "core/status_macros.h"
#include "proto/convert.h"

namespace kvtier {
namespace {

// Errors also: TicketFrom()'s.
absl::StatusOr<std::vector<TicketId>> TicketsFrom(const v1::ReleaseRequest& request) {
  KVT_RETURN_IF_ERROR(convert::CheckIdCount(request.tickets_size(), "tickets"));
  std::vector<TicketId> tickets;
  for (const std::string& ticket : request.tickets()) {
    KVT_ASSIGN_OR_RETURN(tickets.emplace_back(), TicketFrom(ticket));
  }
  return tickets;
}

}  // namespace

WorkerService::Reactor* WorkerService::Release(Context* context, const v1::ReleaseRequest* request,
                                               v1::ReleaseResponse* /*response*/) {
  return Run(context, *request, DoRelease(request));
}

Task<void> WorkerService::ReleaseLeases(SessionId session, std::vector<LeaseId> ids) {
  return InTurns(agent_, session, std::move(ids),
                 [table = &agent_->sessions().leases(), session](std::span<const LeaseId> some) {
                   table->Release(session, some);
                 });
}

Task<absl::Status> WorkerService::DoRelease(const v1::ReleaseRequest* request) {
  KVT_CO_ASSIGN_OR_RETURN(const SessionId session, namer_.FindSession(request->session_token()));
  // All is read first, so that a request that is refused changes nothing.
  KVT_CO_ASSIGN_OR_RETURN(std::vector<LeaseId> leases,
                          IdsFrom<LeaseId>(request->lease_ids(), "lease_ids"));
  KVT_CO_ASSIGN_OR_RETURN(std::vector<LeaseId> damaged,
                          IdsFrom<LeaseId>(request->damaged_lease_ids(), "damaged_lease_ids"));
  KVT_CO_ASSIGN_OR_RETURN(std::vector<ReservationId> reservations,
                          IdsFrom<ReservationId>(request->reservation_ids(), "reservation_ids"));
  KVT_CO_ASSIGN_OR_RETURN(std::vector<uint32_t> slots, NumbersFrom(request->slots(), "slots"));
  KVT_CO_ASSIGN_OR_RETURN(std::vector<uint32_t> spaces,
                          NumbersFrom(request->space_ids(), "space_ids"));
  KVT_CO_ASSIGN_OR_RETURN(std::vector<SwapId> swaps,
                          IdsFrom<SwapId>(request->swap_ids(), "swap_ids"));
  KVT_CO_ASSIGN_OR_RETURN(std::vector<TicketId> tickets, TicketsFrom(*request));

  leases.insert(leases.end(), damaged.begin(), damaged.end());
  const TicketHolder holder = Holder(session);
  WorkerSessions* const of = &agent_->sessions();
  NodeFlows* const flows = &agent_->flows();
  co_await InTurns(agent_, session, std::move(damaged),
                   [of, flows, session](std::span<const LeaseId> some) {
                     for (const LeaseId id : some) {
                       const auto key = of->leases().HostBlockOf(session, id);
                       if (key.has_value()) flows->host_prover.Suspect(*key);
                     }
                   });
  // Each may hold thousands of blocks, as a swapped sequence below.
  co_await InTurns(
      agent_, session, std::move(tickets),
      [flows, holder](std::span<const TicketId> one) { flows->tickets.Release(holder, one[0]); },
      1);
  co_await InTurns(agent_, session, std::move(spaces),
                   [of, session](std::span<const uint32_t> some) {
                     for (const uint32_t id : some) of->table().RemoveSpace(session, id);
                   });
  co_await InTurns(agent_, session, std::move(reservations),
                   [of, session](std::span<const ReservationId> some) {
                     of->reservations().Release(session, some);
                   });
  co_await InTurns(agent_, session, std::move(slots),
                   [this, of, session](std::span<const uint32_t> some) {
                     GpuTier* const gpu = agent_->gpus().Of(session, of->table().DomainOf(session));
                     if (gpu != nullptr) gpu->grants().Release(session, some);
                   });
  co_await InTurns(
      agent_, session, std::move(swaps),
      [of, session](std::span<const SwapId> one) { of->swapped().Drop(session, one); }, 1);
  co_await ReleaseLeases(session, std::move(leases));
  co_return absl::OkStatus();
}

}  // namespace kvtier
