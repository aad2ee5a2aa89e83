// WorkerService answers the RPCs of workers: it converts the request, runs a flow and converts the
// result. It is served on the workers' Unix socket only.
#ifndef KVTIER_AGENT_SERVICES_WORKER_SERVICE_H_
#define KVTIER_AGENT_SERVICES_WORKER_SERVICE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/agent.h"
#include "agent/limits.h"
#include "agent/services/call_budget.h"
#include "agent/services/run_namer.h"
#include "agent/services/unary_service.h"
#include "core/task.h"
#include "kvtier/v1/worker.grpc.pb.h"

namespace kvtier {

// Thread-safe. REQUIRES: the agent outlives the server.
class WorkerService final : public v1::Worker::CallbackService {
 public:
  explicit WorkerService(Agent* agent)
      : agent_(agent),
        budget_({.bytes = kMaxUnknownSessionCallBytes, .duration = kMaxCallDuration},
                &agent->sessions().calls()),
        namer_(agent),
        calls_(agent->executor(), agent->scope(), &budget_, &agent->turns()) {}

  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;
  Reactor* RegisterSpace(Context* context, const v1::RegisterSpaceRequest* request,
                         v1::RegisterSpaceResponse* response) override;
  Reactor* Match(Context* context, const v1::MatchRequest* request,
                 v1::MatchResponse* response) override;
  Reactor* Onboard(Context* context, const v1::OnboardRequest* request,
                   v1::OnboardResponse* response) override;
  grpc::ServerWriteReactor<v1::OnboardPart>* OnboardParts(
      Context* context, const v1::OnboardRequest* request) override;
  Reactor* TakeTicket(Context* context, const v1::TakeTicketRequest* request,
                      v1::TakeTicketResponse* response) override;
  Reactor* RedeemTicket(Context* context, const v1::RedeemTicketRequest* request,
                        v1::OnboardResponse* response) override;
  Reactor* Prefetch(Context* context, const v1::PrefetchRequest* request,
                    v1::PrefetchResponse* response) override;
  Reactor* Reserve(Context* context, const v1::ReserveRequest* request,
                   v1::ReserveResponse* response) override;
  Reactor* Commit(Context* context, const v1::CommitRequest* request,
                  v1::CommitResponse* response) override;
  Reactor* TakeSlots(Context* context, const v1::TakeSlotsRequest* request,
                     v1::TakeSlotsResponse* response) override;
  // Implemented in worker_swap_service.cc, as SwapIn() is.
  Reactor* SwapOut(Context* context, const v1::SwapOutRequest* request,
                   v1::SwapOutResponse* response) override;
  Reactor* SwapIn(Context* context, const v1::SwapInRequest* request,
                  v1::SwapInResponse* response) override;
  // Implemented in worker_release_service.cc.
  Reactor* Release(Context* context, const v1::ReleaseRequest* request,
                   v1::ReleaseResponse* response) override;
  Reactor* Advise(Context* context, const v1::AdviseRequest* request,
                  v1::AdviseResponse* response) override;
  // Implemented in worker_kept_service.cc, as Delete() is.
  Reactor* Keep(Context* context, const v1::KeepRequest* request,
                v1::KeepResponse* response) override;
  Reactor* ListKept(Context* context, const v1::ListKeptRequest* request,
                    v1::ListKeptResponse* response) override;
  Reactor* EndKept(Context* context, const v1::EndKeptRequest* request,
                   v1::EndKeptResponse* response) override;
  Reactor* Delete(Context* context, const v1::DeleteRequest* request,
                  v1::DeleteResponse* response) override;
  Reactor* Ping(Context* context, const v1::PingRequest* request,
                v1::PingResponse* response) override;

 private:
  // Each of these tasks answers one RPC, on the executor.
  Task<absl::Status> DoRegisterSpace(const v1::RegisterSpaceRequest* request,
                                     v1::RegisterSpaceResponse* response);
  Task<absl::Status> DoMatch(const v1::MatchRequest* request, v1::MatchResponse* response);
  Task<absl::Status> DoOnboard(Context* context, const v1::OnboardRequest* request,
                               v1::OnboardResponse* response);
  Task<absl::Status> DoTakeTicket(Context* context, const v1::TakeTicketRequest* request,
                                  v1::TakeTicketResponse* response);
  Task<absl::Status> DoRedeemTicket(Context* context, const v1::RedeemTicketRequest* request,
                                    v1::OnboardResponse* response);
  // Returns the holder of the tickets that the session takes and redeems. REQUIRES: it is open.
  TicketHolder Holder(SessionId session) const;
  // Reads what an onboard asks for and ends the leases that it gives back.
  Task<absl::StatusOr<std::vector<OnboardRequest>>> OnboardsOf(const Context& context,
                                                               const v1::OnboardRequest& request);
  // Writes the leases that were granted to `session` to the response. Ends them at once if the
  // caller is gone, because it would never release leases that it does not know.
  void Answer(Context* context, SessionId session, const std::vector<Onboarded>& onboarded,
              v1::OnboardResponse* response);
  Task<absl::Status> DoPrefetch(const v1::PrefetchRequest* request, v1::PrefetchResponse* response);
  Task<absl::Status> DoReserve(Context* context, const v1::ReserveRequest* request,
                               v1::ReserveResponse* response);
  Task<absl::Status> DoCommit(Context* context, const v1::CommitRequest* request,
                              v1::CommitResponse* response);
  Task<absl::Status> DoTakeSlots(const v1::TakeSlotsRequest* request,
                                 v1::TakeSlotsResponse* response);
  Task<absl::Status> DoSwapOut(Context* context, const v1::SwapOutRequest* request,
                               v1::SwapOutResponse* response);
  Task<absl::Status> DoSwapIn(Context* context, const v1::SwapInRequest* request,
                              v1::SwapInResponse* response);
  Task<absl::Status> DoAdvise(const v1::AdviseRequest* request, v1::AdviseResponse* response);
  Task<absl::Status> DoKeep(Context* context, const v1::KeepRequest* request,
                            v1::KeepResponse* response);
  Task<absl::Status> DoListKept(const v1::ListKeptRequest* request, v1::ListKeptResponse* response);
  Task<absl::Status> DoEndKept(const v1::EndKeptRequest* request, v1::EndKeptResponse* response);
  Task<absl::Status> DoDelete(const v1::DeleteRequest* request, v1::DeleteResponse* response);
  Task<absl::Status> DoRelease(const v1::ReleaseRequest* request);

  // Notes the sums in the request, and adds the reservations of these sums to `ids`. Errors:
  // kInvalidArgument, there are too many, or not two numbers for each reservation.
  Task<absl::Status> NoteSums(SessionId session, const v1::CommitRequest& request,
                              std::vector<ReservationId>* ids);
  // Returns the time `timeout_ms` from now, or the caller's own deadline if that is earlier.
  absl::StatusOr<absl::Time> DeadlineOf(const Context& context, uint32_t timeout_ms) const;
  // Ends the leases, and gives way to other tenants meanwhile.
  Task<void> ReleaseLeases(SessionId session, std::vector<LeaseId> ids);
  // Answers the call in the turn of its session's tenant. REQUIRES: `request` lives until then.
  template <typename Request>
  Reactor* Run(Context* context, const Request& request, Task<absl::Status> task) {
    return calls_.Run(context, request, UnlessStopping(std::move(task)),
                      namer_.CallerOf(request.session_token()));
  }
  // Does the same for a call that writes, which it refuses to a session that may only read.
  template <typename Request>
  Reactor* RunToWrite(Context* context, const Request& request, Task<absl::Status> task) {
    return Run(context, request, IfMayWrite(&request.session_token(), std::move(task)));
  }
  // Runs `task` if the session may write. Errors: FindSession()'s; kPermissionDenied, naming the
  // share group that the session may only read.
  Task<absl::Status> IfMayWrite(const std::string* session_token, Task<absl::Status> task) const;
  // Runs `task`, or refuses the call if the agent is stopping.
  Task<absl::Status> UnlessStopping(Task<absl::Status> task);

  Agent* const agent_;
  CallBudget budget_;
  const RunNamer namer_;
  UnaryCalls calls_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SERVICES_WORKER_SERVICE_H_
