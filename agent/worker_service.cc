#include "agent/worker_service.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "agent/unary_service.h"
#include "core/status_macros.h"
#include "proto/convert.h"

namespace kvtier {
namespace {

uint64_t MonotonicNanos(absl::Time time) {
  return static_cast<uint64_t>(absl::ToInt64Nanoseconds(time - absl::UnixEpoch()));
}

v1::ReservedBlock::State ToWire(ReservedBlock::State state) {
  switch (state) {
    case ReservedBlock::State::kReserved:
      return v1::ReservedBlock::RESERVED;
    case ReservedBlock::State::kPresent:
      return v1::ReservedBlock::PRESENT;
    case ReservedBlock::State::kNoRoom:
      return v1::ReservedBlock::NO_ROOM;
    case ReservedBlock::State::kPending:
      return v1::ReservedBlock::PENDING;
  }
  return v1::ReservedBlock::STATE_UNSPECIFIED;
}

absl::StatusOr<Tier> TargetFrom(v1::Tier wire) {
  KVT_ASSIGN_OR_RETURN(const Tier tier, convert::TierFrom(wire, "target"));
  if (tier == Tier::kDisk) {
    return absl::InvalidArgumentError("target: TIER_DISK is not one that workers can map");
  }
  return tier;
}

std::vector<ReservationId> IdsFrom(const google::protobuf::RepeatedField<uint64_t>& wire) {
  std::vector<ReservationId> ids;
  ids.reserve(static_cast<size_t>(wire.size()));
  for (const uint64_t id : wire) ids.push_back(ReservationId{id});
  return ids;
}

}  // namespace

WorkerService::Reactor* WorkerService::Run(Context* context,
                                           const google::protobuf::MessageLite& request,
                                           Task<absl::Status> task) {
  return calls_.Run(context, request, UnlessStopping(std::move(task)));
}

Task<absl::Status> WorkerService::UnlessStopping(Task<absl::Status> task) {
  if (agent_->stopping()) co_return absl::UnavailableError("this agent is stopping");
  co_return co_await task;
}

absl::StatusOr<SessionId> WorkerService::FindSession(const std::string& token) const {
  if (token.size() != convert::kSessionTokenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("session_token: ", token.size(), " bytes, not ", convert::kSessionTokenBytes));
  }
  SessionToken session_token;
  std::copy(token.begin(), token.end(), session_token.begin());
  return agent_->sessions().Find(session_token);
}

absl::StatusOr<absl::Time> WorkerService::DeadlineOf(const Context& context,
                                                     uint32_t timeout_ms) const {
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout,
                       convert::TimeoutFrom(timeout_ms, "timeout_ms"));
  return agent_->executor()->Now() + std::min(timeout, TimeLeft(context));
}

template <typename Request>
absl::StatusOr<BlockRun> WorkerService::NameRun(const Request& request) const {
  KVT_ASSIGN_OR_RETURN(const SessionId session, FindSession(request.session_token()));
  KVT_ASSIGN_OR_RETURN(const std::vector<EngineKey> keys,
                       convert::EngineKeysFrom(request.engine_keys(), "engine_keys"));
  std::optional<EngineKey> parent;
  if constexpr (requires { request.parent_engine_key(); }) {
    KVT_ASSIGN_OR_RETURN(
        parent, convert::OptionalEngineKeyFrom(request.parent_engine_key(), "parent_engine_key"));
  }
  return agent_->sessions().NameRun(session, request.space_id(), parent, keys);
}

WorkerService::Reactor* WorkerService::RegisterSpace(Context* context,
                                                     const v1::RegisterSpaceRequest* request,
                                                     v1::RegisterSpaceResponse* response) {
  return Run(context, *request, DoRegisterSpace(request, response));
}

Task<absl::Status> WorkerService::DoRegisterSpace(const v1::RegisterSpaceRequest* request,
                                                  v1::RegisterSpaceResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(const SessionId session, FindSession(request->session_token()));
  KVT_CO_ASSIGN_OR_RETURN(const SpaceSpec spec, convert::SpaceFrom(request->space()));
  const uint64_t slot_bytes = SlotBytes(spec.block_bytes);
  if (slot_bytes > agent_->options().slab_bytes) {
    co_return absl::InvalidArgumentError(absl::StrCat("space.block_bytes: ", spec.block_bytes,
                                                      " is more than this agent's slab of ",
                                                      agent_->options().slab_bytes, " bytes"));
  }
  KVT_CO_ASSIGN_OR_RETURN(const uint32_t space_id, agent_->sessions().AddSpace(session, spec));
  response->set_space_id(space_id);
  response->set_space_digest(convert::ToWire(spec.Digest()));
  response->set_slot_bytes(slot_bytes);
  const GpuPool* gpu = agent_->gpu_of(agent_->sessions().DomainOf(session));
  if (gpu != nullptr && gpu->slot_bytes() == slot_bytes) response->set_gpu_slot_bytes(slot_bytes);
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::Match(Context* context, const v1::MatchRequest* request,
                                             v1::MatchResponse* response) {
  return Run(context, *request, DoMatch(request, response));
}

Task<absl::Status> WorkerService::DoMatch(const v1::MatchRequest* request,
                                          v1::MatchResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(BlockRun run, NameRun(*request));
  KVT_CO_ASSIGN_OR_RETURN(const absl::Duration timeout,
                          convert::TimeoutFrom(request->timeout_ms(), "timeout_ms"));
  const Matched matched = co_await agent_->matcher().Match(std::move(run), timeout);
  response->set_local_blocks(matched.local_blocks);
  response->set_total_blocks(matched.tiers.size());
  for (const Tier tier : matched.tiers) response->add_tiers(convert::ToWire(tier));
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::Onboard(Context* context, const v1::OnboardRequest* request,
                                               v1::OnboardResponse* response) {
  return Run(context, *request, DoOnboard(context, request, response));
}

Task<absl::Status> WorkerService::DoOnboard(Context* context, const v1::OnboardRequest* request,
                                            v1::OnboardResponse* response) {
  OnboardRequest onboard;
  KVT_CO_ASSIGN_OR_RETURN(onboard.run, NameRun(*request));
  KVT_CO_ASSIGN_OR_RETURN(onboard.target, TargetFrom(request->target()));
  KVT_CO_ASSIGN_OR_RETURN(onboard.deadline, DeadlineOf(*context, request->timeout_ms()));
  onboard.local_only = request->local_only();
  const SessionId session = onboard.run.session;
  KVT_CO_ASSIGN_OR_RETURN(const Onboarded onboarded,
                          co_await agent_->onboarder().Onboard(std::move(onboard)));
  for (const LeasedBlock& block : onboarded.blocks) {
    v1::LeasedBlock* wire = response->add_blocks();
    wire->set_lease_id(static_cast<uint64_t>(block.lease));
    wire->set_offset(block.offset);
    wire->set_length(block.length);
    if (block.from.has_value()) wire->set_from(convert::ToWire(*block.from));
  }
  if (context->IsCancelled()) {
    // The asker is gone and will never release what it does not know of.
    for (const LeasedBlock& block : onboarded.blocks) {
      agent_->leases().Release(session, std::span(&block.lease, 1));
    }
  }
  response->set_lease_deadline_ns(MonotonicNanos(onboarded.lease_deadline));
  if (request->target() == v1::TIER_GPU) response->set_gpu_version(agent_->gpu()->version());
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::Prefetch(Context* context,
                                                const v1::PrefetchRequest* request,
                                                v1::PrefetchResponse* response) {
  return Run(context, *request, DoPrefetch(request, response));
}

Task<absl::Status> WorkerService::DoPrefetch(const v1::PrefetchRequest* request,
                                             v1::PrefetchResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(BlockRun run, NameRun(*request));
  response->set_accepted_blocks(
      co_await agent_->onboarder().Prefetch(std::move(run), request->local_only()));
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::Reserve(Context* context, const v1::ReserveRequest* request,
                                               v1::ReserveResponse* response) {
  return Run(context, *request, DoReserve(context, request, response));
}

Task<absl::Status> WorkerService::DoReserve(Context* context, const v1::ReserveRequest* request,
                                            v1::ReserveResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(BlockRun run, NameRun(*request));
  KVT_CO_ASSIGN_OR_RETURN(const Tier target, TargetFrom(request->target()));
  KVT_CO_ASSIGN_OR_RETURN(const absl::Time deadline, DeadlineOf(*context, request->timeout_ms()));
  const SessionId session = run.session;
  KVT_CO_ASSIGN_OR_RETURN(const Reserved reserved,
                          co_await agent_->putter().ReserveBy(std::move(run), target, deadline));
  for (const ReservedBlock& block : reserved.blocks) {
    v1::ReservedBlock* wire = response->add_blocks();
    wire->set_state(ToWire(block.state));
    wire->set_reservation_id(static_cast<uint64_t>(block.id));
    wire->set_offset(block.offset);
  }
  if (context->IsCancelled()) {
    // The asker gave up while it waited, and writes nothing where it knows of nothing.
    for (const ReservedBlock& block : reserved.blocks) {
      agent_->reservations().Release(session, std::span(&block.id, 1));
    }
  }
  response->set_deadline_ns(MonotonicNanos(reserved.deadline));
  if (target == Tier::kGpu) response->set_gpu_version(agent_->gpu()->version());
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::Commit(Context* context, const v1::CommitRequest* request,
                                              v1::CommitResponse* response) {
  return Run(context, *request, DoCommit(context, request, response));
}

Task<absl::Status> WorkerService::DoCommit(Context* context, const v1::CommitRequest* request,
                                           v1::CommitResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(const SessionId session, FindSession(request->session_token()));
  std::vector<ReservationId> ids = IdsFrom(request->reservation_ids());
  const std::vector<ReservationId> unwritten = IdsFrom(request->unwritten_reservation_ids());
  const uint64_t step = request->step();
  KVT_CO_RETURN_IF_ERROR(agent_->putter().CheckStep(session, step));
  KVT_CO_ASSIGN_OR_RETURN(const absl::Time deadline, DeadlineOf(*context, request->timeout_ms()));
  response->set_unwritten_blocks(agent_->reservations().GiveBackUnwritten(session, unwritten));
  std::vector<BlockKey> keys;
  if (request->durable()) keys = agent_->reservations().KeysOf(session, ids);
  response->set_committed_blocks(co_await agent_->putter().Commit(session, std::move(ids), step));
  if (agent_->offloader() != nullptr && !keys.empty()) {
    response->set_durable_blocks(static_cast<uint32_t>(
        co_await agent_->offloader()->AwaitDurable(std::move(keys), deadline)));
  }
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::TakeSlots(Context* context,
                                                 const v1::TakeSlotsRequest* request,
                                                 v1::TakeSlotsResponse* response) {
  return Run(context, *request, DoTakeSlots(request, response));
}

Task<absl::Status> WorkerService::DoTakeSlots(const v1::TakeSlotsRequest* request,
                                              v1::TakeSlotsResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(const SessionId session, FindSession(request->session_token()));
  KVT_CO_ASSIGN_OR_RETURN(const BlockRun run, agent_->sessions().NameRun(
                                                  session, request->space_id(), std::nullopt, {}));
  if (request->slots() == 0 || request->slots() > kMaxSlotsPerSession) {
    co_return absl::InvalidArgumentError(
        absl::StrCat("slots: ", request->slots(), "; must be 1 to ", kMaxSlotsPerSession));
  }
  if (agent_->slot_grants() == nullptr) {
    co_return absl::InvalidArgumentError("space_id: this node has no GPU pool");
  }
  KVT_CO_ASSIGN_OR_RETURN(const std::vector<uint32_t> slots,
                          agent_->slot_grants()->Take(run, request->slots()));
  response->mutable_slots()->Add(slots.begin(), slots.end());
  response->set_gpu_version(agent_->gpu()->version());
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::Release(Context* context, const v1::ReleaseRequest* request,
                                               v1::ReleaseResponse* /*response*/) {
  return Run(context, *request, DoRelease(request));
}

Task<absl::Status> WorkerService::DoRelease(const v1::ReleaseRequest* request) {
  KVT_CO_ASSIGN_OR_RETURN(const SessionId session, FindSession(request->session_token()));
  std::vector<LeaseId> leases;
  for (const uint64_t id : request->lease_ids()) leases.push_back(LeaseId{id});
  agent_->leases().Release(session, leases);
  agent_->reservations().Release(session, IdsFrom(request->reservation_ids()));
  const std::vector<uint32_t> slots(request->slots().begin(), request->slots().end());
  if (agent_->slot_grants() != nullptr) agent_->slot_grants()->Release(session, slots);
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::Ping(Context* context, const v1::PingRequest* /*request*/,
                                            v1::PingResponse* /*response*/) {
  Reactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace kvtier
