// WorkerService's RPCs that swap sequences out and in.
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "agent/services/worker_service.h"
#include "core/status_macros.h"

namespace kvtier {

WorkerService::Reactor* WorkerService::SwapOut(Context* context, const v1::SwapOutRequest* request,
                                               v1::SwapOutResponse* response) {
  return Run(context, *request, DoSwapOut(context, request, response));
}

Task<absl::Status> WorkerService::DoSwapOut(Context* context, const v1::SwapOutRequest* request,
                                            v1::SwapOutResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(const SessionId session, namer_.FindSession(request->session_token()));
  SwapOutRequest wanted{.slots = {request->slots().begin(), request->slots().end()},
                        .step = request->step(),
                        .priority = request->priority(),
                        .keep_slots = request->keep_slots()};
  if (wanted.slots.empty() || wanted.slots.size() > kMaxSlotsPerSession) {
    co_return absl::InvalidArgumentError(absl::StrCat(
        "slots: ", wanted.slots.size(), " of them; must be 1 to ", kMaxSlotsPerSession));
  }
  KVT_CO_ASSIGN_OR_RETURN(wanted.run, agent_->sessions().table().NameRun(
                                          session, request->space_id(), std::nullopt, {}));
  KVT_CO_ASSIGN_OR_RETURN(const SwapId id,
                          co_await agent_->flows().swapper.SwapOut(std::move(wanted)));
  // A caller that is gone does not know the swap_id, and would never swap the sequence in.
  if (context->IsCancelled()) agent_->sessions().swapped().Drop(session, std::span(&id, 1));
  response->set_swap_id(static_cast<uint64_t>(id));
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::SwapIn(Context* context, const v1::SwapInRequest* request,
                                              v1::SwapInResponse* response) {
  return Run(context, *request, DoSwapIn(context, request, response));
}

Task<absl::Status> WorkerService::DoSwapIn(Context* context, const v1::SwapInRequest* request,
                                           v1::SwapInResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(const SessionId session, namer_.FindSession(request->session_token()));
  KVT_CO_ASSIGN_OR_RETURN(const absl::Time deadline, DeadlineOf(*context, request->timeout_ms()));
  SwapInRequest wanted{.session = session,
                       .id = SwapId{request->swap_id()},
                       .slots = {request->slots().begin(), request->slots().end()},
                       .deadline = deadline};
  KVT_CO_ASSIGN_OR_RETURN(const std::vector<uint32_t> slots,
                          co_await agent_->flows().swapper.SwapIn(std::move(wanted)));
  GpuTier* const gpu = agent_->gpus().Of(session, agent_->sessions().table().DomainOf(session));
  // A caller that is gone does not know which slots it was given.
  if (context->IsCancelled()) {
    gpu->grants().Release(session,
                          std::span(slots).subspan(static_cast<size_t>(request->slots_size())));
  }
  response->mutable_slots()->Add(slots.begin(), slots.end());
  response->set_gpu_version(gpu->pool().version());
  co_return absl::OkStatus();
}

}  // namespace kvtier
