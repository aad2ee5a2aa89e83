// WorkerService's RPCs that keep prefixes and drop blocks.
#include <utility>

#include "agent/services/kept_wire.h"
#include "agent/services/worker_service.h"
#include "agent/services/worker_wire.h"
#include "core/status_macros.h"

namespace kvtier {

WorkerService::Reactor* WorkerService::Keep(Context* context, const v1::KeepRequest* request,
                                            v1::KeepResponse* response) {
  return RunToWrite(context, *request, DoKeep(context, request, response));
}

Task<absl::Status> WorkerService::DoKeep(Context* context, const v1::KeepRequest* request,
                                         v1::KeepResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(std::vector<BlockRun> runs, co_await namer_.NameRuns(*request));
  KVT_CO_ASSIGN_OR_RETURN(const absl::Time deadline, DeadlineOf(*context, request->timeout_ms()));
  KeepRequest wanted{.sequences = std::move(runs),
                     .deadline = deadline,
                     .ttl = absl::Milliseconds(request->ttl_ms())};
  KVT_CO_ASSIGN_OR_RETURN(const Kept kept,
                          co_await agent_->flows().prefix_keeper.Keep(std::move(wanted)));
  FillKept(kept, response);
  response->set_ttl_left_ms(MillisLeft(kept.deadline, agent_->executor()->Now()));
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::ListKept(Context* context,
                                                const v1::ListKeptRequest* request,
                                                v1::ListKeptResponse* response) {
  return Run(context, *request, DoListKept(request, response));
}

Task<absl::Status> WorkerService::DoListKept(const v1::ListKeptRequest* request,
                                             v1::ListKeptResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(const SessionId session, namer_.FindSession(request->session_token()));
  FillKept(agent_->flows().kept_prefixes, agent_->sessions().table().DomainOf(session),
           agent_->executor()->Now(), response);
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::EndKept(Context* context, const v1::EndKeptRequest* request,
                                               v1::EndKeptResponse* response) {
  return RunToWrite(context, *request, DoEndKept(request, response));
}

Task<absl::Status> WorkerService::DoEndKept(const v1::EndKeptRequest* request,
                                            v1::EndKeptResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(const SessionId session, namer_.FindSession(request->session_token()));
  response->set_ended_prefixes(static_cast<uint32_t>(co_await agent_->flows().prefix_keeper.End(
      agent_->sessions().table().DomainOf(session), KeptId{request->kept_id()})));
  co_return absl::OkStatus();
}

WorkerService::Reactor* WorkerService::Delete(Context* context, const v1::DeleteRequest* request,
                                              v1::DeleteResponse* response) {
  return RunToWrite(context, *request, DoDelete(request, response));
}

Task<absl::Status> WorkerService::DoDelete(const v1::DeleteRequest* request,
                                           v1::DeleteResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(std::vector<BlockRun> runs, co_await namer_.NameRuns(*request));
  const DeleteScope scope =
      request->descendants() ? DeleteScope::kDescendants : DeleteScope::kNamed;
  FillDeleted(co_await agent_->flows().block_deleter.Delete(std::move(runs), scope), response);
  co_return absl::OkStatus();
}

}  // namespace kvtier
