#include "agent/services/worker_service.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "agent/services/id_lists.h"
#include "agent/services/onboard_stream.h"
#include "agent/services/unary_service.h"
#include "agent/services/worker_wire.h"
#include "core/status_macros.h"
#include "proto/convert.h"
#include "proto/sequence_keys.h"

namespace kvtier {

Task<absl::Status> WorkerService::UnlessStopping(Task<absl::Status> task) {
  if (agent_->stopping()) {
    co_return absl::UnavailableError("this agent is stopping; try again when it has restarted");
  }
  co_return co_await task;
}

Task<absl::Status> WorkerService::IfMayWrite(const std::string* session_token,
                                             Task<absl::Status> task) const {
  KVT_CO_ASSIGN_OR_RETURN(const SessionId session, namer_.FindSession(*session_token));
  const SessionTenants& of = agent_->sessions().table().TenantsOf(session);
  if (!of.may_write) {
    co_return absl::PermissionDeniedError(absl::StrCat(
        "group: tenant '", of.payer->name, "' may only read the blocks of share group '",
        of.home->name, "'; put them as a tenant that may write, or let it: kvtier tenants set ",
        of.home->name, " --write ", of.payer->name));
  }
  co_return co_await task;
}

absl::StatusOr<absl::Time> WorkerService::DeadlineOf(const Context& context,
                                                     uint32_t timeout_ms) const {
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout,
                       convert::TimeoutFrom(timeout_ms, "timeout_ms"));
  return agent_->executor()->Now() + std::min(timeout, TimeLeft(context));
}

WorkerService::Reactor* WorkerService::RegisterSpace(Context* context,
                                                     const v1::RegisterSpaceRequest* request,
                                                     v1::RegisterSpaceResponse* response) {
  return Run(context, *request, DoRegisterSpace(request, response));
}

Task<absl::Status> WorkerService::DoRegisterSpace(const v1::RegisterSpaceRequest* request,
                                                  v1::RegisterSpaceResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(const SessionId session, namer_.FindSession(request->session_token()));
  KVT_CO_ASSIGN_OR_RETURN(const SpaceSpec spec, convert::SpaceFrom(request->space()));
  const uint64_t slot_bytes = SlotBytes(spec.block_bytes);
  if (slot_bytes > agent_->options().slab_bytes) {
    co_return absl::InvalidArgumentError(
        absl::StrCat("space.block_bytes: ", spec.block_bytes, "; must fit this agent's slab of ",
                     agent_->options().slab_bytes, " bytes; raise --slab_bytes"));
  }
  KVT_CO_ASSIGN_OR_RETURN(const uint32_t space_id, agent_->sessions().table().AddSpace(
                                                       session, spec, request->registration()));
  response->set_space_id(space_id);
  response->set_space_digest(convert::ToWire(spec.Digest()));
  response->set_slot_bytes(slot_bytes);
  const DomainId domain = agent_->sessions().table().DomainOf(session);
  const uint64_t slab_bytes = agent_->options().slab_bytes;
  response->set_slab_bytes(slab_bytes);
  response->set_host_slots(agent_->host().slots(domain).present_slabs() *
                           (slab_bytes / slot_bytes));
  response->set_staging_slots(agent_->sessions().staging().SlotsOf(slot_bytes));
  const BlockRun any{.session = session, .domain = domain, .lengths = BlockLengths::Of(spec)};
  if (agent_->gpus().For(any) != nullptr) response->set_gpu_slot_bytes(slot_bytes);
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::Match(Context* context, const v1::MatchRequest* request,
                                             v1::MatchResponse* response) {
  return Run(context, *request, DoMatch(request, response));
}

Task<absl::Status> WorkerService::DoMatch(const v1::MatchRequest* request,
                                          v1::MatchResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(std::vector<BlockRun> runs, co_await namer_.NameRuns(*request));
  KVT_CO_ASSIGN_OR_RETURN(const absl::Duration timeout,
                          convert::TimeoutFrom(request->timeout_ms(), "timeout_ms"));
  const std::vector<Matched> matched =
      co_await agent_->flows().matcher.Match(std::move(runs), timeout);
  for (const Matched& of_run : matched) FillMatched(of_run, response->add_sequences());
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::Onboard(Context* context, const v1::OnboardRequest* request,
                                               v1::OnboardResponse* response) {
  return Run(context, *request, DoOnboard(context, request, response));
}

Task<absl::StatusOr<std::vector<OnboardRequest>>> WorkerService::OnboardsOf(
    const Context& context, const v1::OnboardRequest& request) {
  KVT_CO_ASSIGN_OR_RETURN(std::vector<BlockRun> runs, co_await namer_.NameRuns(request));
  OnboardRequest common{.local_only = request.local_only()};
  KVT_CO_ASSIGN_OR_RETURN(common.target, TargetFrom(request.target()));
  KVT_CO_ASSIGN_OR_RETURN(common.deadline, DeadlineOf(context, request.timeout_ms()));
  KVT_CO_ASSIGN_OR_RETURN(std::vector<LeaseId> released,
                          IdsFrom<LeaseId>(request.released_lease_ids(), "released_lease_ids"));
  co_await ReleaseLeases(runs[0].session, std::move(released));
  std::vector<OnboardRequest> all(runs.size(), common);
  for (size_t i = 0; i < runs.size(); ++i) all[i].run = std::move(runs[i]);
  co_return all;
}

Task<absl::Status> WorkerService::DoOnboard(Context* context, const v1::OnboardRequest* request,
                                            v1::OnboardResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(std::vector<OnboardRequest> all, co_await OnboardsOf(*context, *request));
  const SessionId session = all[0].run.session;
  const DomainId domain = all[0].run.domain;
  std::vector<Onboarded> onboarded;
  if (all.size() == 1) {
    KVT_CO_ASSIGN_OR_RETURN(Onboarded one,
                            co_await agent_->flows().onboarder.Onboard(std::move(all[0])));
    onboarded.push_back(std::move(one));
  } else {
    KVT_CO_ASSIGN_OR_RETURN(onboarded,
                            co_await agent_->flows().onboarder.OnboardAll(std::move(all)));
  }
  Answer(context, session, onboarded, response);
  if (request->target() == v1::TIER_GPU) {
    response->set_gpu_version(agent_->gpus().Of(session, domain)->pool().version());
  }
  co_return absl::OkStatus();
}

grpc::ServerWriteReactor<v1::OnboardPart>* WorkerService::OnboardParts(
    Context* context, const v1::OnboardRequest* request) {
  return OnboardStream::Run({.agent = agent_, .budget = &budget_}, context,
                            OnboardStream::MemoryOf(*request),
                            namer_.CallerOf(request->session_token()),
                            [this, context, request] { return OnboardsOf(*context, *request); });
}

void WorkerService::Answer(Context* context, SessionId session,
                           const std::vector<Onboarded>& onboarded, v1::OnboardResponse* response) {
  const bool asker_is_gone = context->IsCancelled();
  for (const Onboarded& of_run : onboarded) {
    FillOnboarded(of_run, response->add_sequences());
    if (!asker_is_gone) continue;
    for (const LeasedBlock& block : of_run.blocks) {
      agent_->sessions().leases().Release(session, std::span(&block.lease, 1));
    }
  }
  response->set_lease_deadline_ns(MonotonicNanos(onboarded.front().lease_deadline));
}

WorkerService::Reactor* WorkerService::TakeTicket(Context* context,
                                                  const v1::TakeTicketRequest* request,
                                                  v1::TakeTicketResponse* response) {
  return Run(context, *request, DoTakeTicket(context, request, response));
}

Task<absl::Status> WorkerService::DoTakeTicket(Context* context,
                                               const v1::TakeTicketRequest* request,
                                               v1::TakeTicketResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(std::vector<BlockRun> runs, co_await namer_.NameRuns(*request));
  KVT_CO_ASSIGN_OR_RETURN(const absl::Time deadline, DeadlineOf(*context, request->timeout_ms()));
  const TicketHolder holder = TicketHolder::Of(runs[0]);
  TicketRequest wanted{.redemptions = request->redemptions(),
                       .lifetime = absl::Milliseconds(request->lifetime_ms())};
  for (BlockRun& run : runs) {
    wanted.sequences.push_back(
        {.run = std::move(run), .deadline = deadline, .local_only = request->local_only()});
  }
  KVT_CO_ASSIGN_OR_RETURN(const TakenTicket taken,
                          co_await agent_->flows().tickets.Take(std::move(wanted)));
  // A caller that is gone passes the ticket to nobody.
  if (context->IsCancelled()) agent_->flows().tickets.Release(holder, taken.id);
  FillTaken(taken, response);
  co_return absl::OkStatus();
}

TicketHolder WorkerService::Holder(SessionId session) const {
  const SessionTable& table = agent_->sessions().table();
  return {.domain = table.DomainOf(session), .payer = table.PayerOf(session)};
}

WorkerService::Reactor* WorkerService::RedeemTicket(Context* context,
                                                    const v1::RedeemTicketRequest* request,
                                                    v1::OnboardResponse* response) {
  return Run(context, *request, DoRedeemTicket(context, request, response));
}

Task<absl::Status> WorkerService::DoRedeemTicket(Context* context,
                                                 const v1::RedeemTicketRequest* request,
                                                 v1::OnboardResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(const SessionId session, namer_.FindSession(request->session_token()));
  KVT_CO_ASSIGN_OR_RETURN(const TicketId id, TicketFrom(request->ticket()));
  std::vector<SpaceDigest> spaces;
  if (request->space_ids_size() > static_cast<int>(convert::kMaxSequencesPerRequest)) {
    co_return absl::InvalidArgumentError(absl::StrCat("space_ids: ", request->space_ids_size(),
                                                      "; must be at most ",
                                                      convert::kMaxSequencesPerRequest));
  }
  for (const uint32_t space_id : request->space_ids()) {
    KVT_CO_ASSIGN_OR_RETURN(const BlockRun run, agent_->sessions().table().NameRun(
                                                    session, space_id, std::nullopt, {}));
    spaces.push_back(run.space);
  }
  KVT_CO_ASSIGN_OR_RETURN(
      const std::vector<Onboarded> onboarded,
      agent_->flows().tickets.Redeem(session, Holder(session), id, request->rank(), spaces));
  Answer(context, session, onboarded, response);
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::Prefetch(Context* context,
                                                const v1::PrefetchRequest* request,
                                                v1::PrefetchResponse* response) {
  return Run(context, *request, DoPrefetch(request, response));
}

Task<absl::Status> WorkerService::DoPrefetch(const v1::PrefetchRequest* request,
                                             v1::PrefetchResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(std::vector<BlockRun> runs, co_await namer_.NameRuns(*request));
  size_t accepted = 0;
  for (BlockRun& run : runs) {
    accepted += co_await agent_->flows().onboarder.Prefetch(std::move(run), request->local_only());
  }
  response->set_accepted_blocks(static_cast<uint32_t>(accepted));
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::Reserve(Context* context, const v1::ReserveRequest* request,
                                               v1::ReserveResponse* response) {
  return RunToWrite(context, *request, DoReserve(context, request, response));
}

Task<absl::Status> WorkerService::DoReserve(Context* context, const v1::ReserveRequest* request,
                                            v1::ReserveResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(std::vector<BlockRun> runs, co_await namer_.NameRuns(*request));
  KVT_CO_ASSIGN_OR_RETURN(const Tier target, TargetFrom(request->target()));
  KVT_CO_ASSIGN_OR_RETURN(const absl::Time deadline, DeadlineOf(*context, request->timeout_ms()));
  for (size_t i = 0; i < runs.size(); ++i) {
    KVT_CO_RETURN_IF_ERROR(TakeLengths(request->sequences(static_cast<int>(i)), &runs[i]));
  }
  const SessionId session = runs[0].session;
  const DomainId domain = runs[0].domain;
  KVT_CO_ASSIGN_OR_RETURN(std::vector<LeaseId> released,
                          IdsFrom<LeaseId>(request->released_lease_ids(), "released_lease_ids"));
  co_await ReleaseLeases(session, std::move(released));
  std::vector<ReservationId> ids;
  // Deadline of the first block; those of the others are later.
  std::optional<absl::Time> commit_by;
  absl::Status status;
  for (BlockRun& run : runs) {
    const absl::StatusOr<Reserved> reserved =
        co_await agent_->flows().putter.ReserveBy(std::move(run), target, deadline);
    status = reserved.status();
    if (!status.ok()) break;
    if (!commit_by) commit_by = reserved->deadline;
    for (const ReservedBlock& block : reserved->blocks) {
      FillReserved(block, response->add_blocks());
      ids.push_back(block.id);
    }
  }
  if (!status.ok() || context->IsCancelled()) {
    // A caller that gets no answer knows of no reservation, and writes nothing.
    agent_->sessions().reservations().Release(session, ids);
    co_return status;
  }
  response->set_deadline_ns(MonotonicNanos(*commit_by));
  if (target == Tier::kGpu) {
    response->set_gpu_version(agent_->gpus().Of(session, domain)->pool().version());
  }
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::Commit(Context* context, const v1::CommitRequest* request,
                                              v1::CommitResponse* response) {
  return RunToWrite(context, *request, DoCommit(context, request, response));
}

Task<absl::Status> WorkerService::DoCommit(Context* context, const v1::CommitRequest* request,
                                           v1::CommitResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(const SessionId session, namer_.FindSession(request->session_token()));
  KVT_CO_ASSIGN_OR_RETURN(std::vector<ReservationId> ids,
                          IdsFrom<ReservationId>(request->reservation_ids(), "reservation_ids"));
  KVT_CO_ASSIGN_OR_RETURN(
      std::vector<ReservationId> unwritten,
      IdsFrom<ReservationId>(request->unwritten_reservation_ids(), "unwritten_reservation_ids"));
  const uint64_t step = request->step();
  KVT_CO_RETURN_IF_ERROR(agent_->flows().putter.CheckStep(session, step));
  KVT_CO_ASSIGN_OR_RETURN(const absl::Time deadline, DeadlineOf(*context, request->timeout_ms()));
  KVT_CO_RETURN_IF_ERROR(co_await NoteSums(session, *request, &ids));
  ReservationTable* const table = &agent_->sessions().reservations();
  size_t given_back = 0;
  co_await InTurns(agent_, session, std::move(unwritten),
                   [table, session, &given_back](std::span<const ReservationId> some) {
                     given_back += table->GiveBackUnwritten(session, some);
                   });
  response->set_unwritten_blocks(given_back);
  std::vector<BlockKey> keys;
  if (request->durable()) {
    co_await InTurns(agent_, session, ids,
                     [table, session, &keys](std::span<const ReservationId> some) {
                       std::ranges::move(table->KeysOf(session, some), std::back_inserter(keys));
                     });
  }
  response->set_committed_blocks(
      co_await agent_->flows().putter.Commit(session, std::move(ids), step));
  if (agent_->flows().offloader != nullptr && !keys.empty()) {
    response->set_durable_blocks(static_cast<uint32_t>(
        co_await agent_->flows().offloader->AwaitDurable(std::move(keys), deadline)));
  }
  co_return absl::OkStatus();
}

Task<absl::Status> WorkerService::NoteSums(SessionId session, const v1::CommitRequest& request,
                                           std::vector<ReservationId>* ids) {
  KVT_CO_ASSIGN_OR_RETURN(
      std::vector<ReservationId> summed,
      IdsFrom<ReservationId>(request.summed_reservation_ids(), "summed_reservation_ids"));
  const uint64_t* sums = request.sums().data();
  if (static_cast<size_t>(request.sums_size()) != 2 * summed.size()) {
    co_return absl::InvalidArgumentError(
        absl::StrCat("sums: ", request.sums_size(), " numbers for ", summed.size(),
                     " summed_reservation_ids; must be two for each"));
  }
  ids->insert(ids->end(), summed.begin(), summed.end());
  co_await InTurns(agent_, session, std::move(summed),
                   [table = &agent_->sessions().reservations(), session,
                    &sums](std::span<const ReservationId> some) {
                     for (const ReservationId id : some) {
                       table->NoteSum(session, id, {.hi = sums[0], .lo = sums[1]});
                       sums += 2;
                     }
                   });
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::TakeSlots(Context* context,
                                                 const v1::TakeSlotsRequest* request,
                                                 v1::TakeSlotsResponse* response) {
  return Run(context, *request, DoTakeSlots(request, response));
}

Task<absl::Status> WorkerService::DoTakeSlots(const v1::TakeSlotsRequest* request,
                                              v1::TakeSlotsResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(const SessionId session, namer_.FindSession(request->session_token()));
  KVT_CO_ASSIGN_OR_RETURN(const BlockRun run, agent_->sessions().table().NameRun(
                                                  session, request->space_id(), std::nullopt, {}));
  if (request->slots() == 0 || request->slots() > kMaxSlotsPerSession) {
    co_return absl::InvalidArgumentError(
        absl::StrCat("slots: ", request->slots(), "; must be 1 to ", kMaxSlotsPerSession));
  }
  GpuTier* const gpu = agent_->gpus().For(run);
  if (gpu == nullptr) {
    co_return absl::InvalidArgumentError(
        "space_id: no GPU pool of this node has slots for blocks of this space; start the agent "
        "with --gpu_block_bytes of their size");
  }
  KVT_CO_ASSIGN_OR_RETURN(const std::vector<uint32_t> slots,
                          gpu->grants().Take(session, request->slots()));
  response->mutable_slots()->Add(slots.begin(), slots.end());
  response->set_gpu_version(gpu->pool().version());
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::Advise(Context* context, const v1::AdviseRequest* request,
                                              v1::AdviseResponse* response) {
  return RunToWrite(context, *request, DoAdvise(request, response));
}

Task<absl::Status> WorkerService::DoAdvise(const v1::AdviseRequest* request,
                                           v1::AdviseResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(const std::vector<BlockRun> runs, co_await namer_.NameRuns(*request));
  size_t advised = 0;
  for (const BlockRun& run : runs) {
    for (std::span<const BlockKey> left = run.keys; !left.empty();) {
      const std::span<const BlockKey> some = left.first(std::min(left.size(), kKeysPerTurn));
      advised += agent_->index().Advise(some, run.hint);
      agent_->sessions().reservations().Advise(some, run.hint);
      left = left.subspan(some.size());
      if (!left.empty()) co_await agent_->turns().GiveWay(run.payer());
    }
  }
  response->set_advised_blocks(static_cast<uint32_t>(advised));
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::Ping(Context* context, const v1::PingRequest* /*request*/,
                                            v1::PingResponse* /*response*/) {
  Reactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace kvtier
