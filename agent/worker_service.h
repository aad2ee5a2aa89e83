// WorkerService is the gRPC face of the flows for workers: convert, run, convert
// back. Served on the node's Unix socket only.
#ifndef KVTIER_AGENT_WORKER_SERVICE_H_
#define KVTIER_AGENT_WORKER_SERVICE_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/agent.h"
#include "agent/call_budget.h"
#include "agent/onboard_stream.h"
#include "agent/unary_service.h"
#include "core/task.h"
#include "kvtier/v1/worker.grpc.pb.h"
#include "proto/call_loop.h"

namespace kvtier {

// Thread-safe. REQUIRES: the agent outlives the server.
class WorkerService final : public QueuedService {
 public:
  using Rpcs = v1::Worker::AsyncService;
  explicit WorkerService(Agent* agent);

  Rpcs* rpcs() override { return &rpcs_; }
  void Serve(CallLoop* loop) override;

 private:
  using Context = grpc::ServerContextBase;

  // Blocks of a commit that are as good as published, since nothing can keep them from it.
  struct Announced {
    SessionId session{};
    std::vector<ReservationId> ids;
  };

  // One task an RPC, on the executor.
  Task<absl::Status> DoRegisterSpace(Context* context, const v1::RegisterSpaceRequest* request,
                                     v1::RegisterSpaceResponse* response);
  Task<absl::Status> DoMatch(Context* context, const v1::MatchRequest* request,
                             v1::MatchResponse* response);
  Task<absl::Status> DoOnboard(Context* context, const v1::OnboardRequest* request,
                               v1::OnboardResponse* response);
  Task<absl::Status> DoTakeTicket(Context* context, const v1::TakeTicketRequest* request,
                                  v1::TakeTicketResponse* response);
  Task<absl::Status> DoRedeemTicket(Context* context, const v1::RedeemTicketRequest* request,
                                    v1::OnboardResponse* response);
  Task<absl::Status> DoPrefetch(Context* context, const v1::PrefetchRequest* request,
                                v1::PrefetchResponse* response);
  Task<absl::Status> DoReserve(Context* context, const v1::ReserveRequest* request,
                               v1::ReserveResponse* response);
  // Writes what is to be published behind the answer into `announced`.
  Task<absl::Status> DoCommit(Context* context, const v1::CommitRequest* request,
                              v1::CommitResponse* response, Announced* announced);
  Task<absl::Status> DoTakeSlots(Context* context, const v1::TakeSlotsRequest* request,
                                 v1::TakeSlotsResponse* response);
  Task<absl::Status> DoRelease(Context* context, const v1::ReleaseRequest* request,
                               v1::ReleaseResponse* response);
  Task<absl::Status> DoDelete(Context* context, const v1::DeleteRequest* request,
                              v1::DeleteResponse* response);

  // Begins an RPC by its task.
  template <auto kDo, typename Request, typename Response>
  void Begin(UnaryCalls::Call* call, Context* context, const Request* request, Response* response) {
    calls_.Answer(call, *request, UnlessStopping((this->*kDo)(context, request, response)));
  }
  // Commits; the caller does not wait for the tables to take what is announced.
  void Commit(UnaryCalls::Call* call, Context* context, const v1::CommitRequest* request,
              v1::CommitResponse* response);
  Task<void> CommitAndReply(UnaryCalls::Call* call, Context* context,
                            const v1::CommitRequest* request, v1::CommitResponse* response);
  // Answers at once, whatever else there is to do.
  void Ping(UnaryCalls::Call* call, Context* context, const v1::PingRequest* request,
            v1::PingResponse* response);
  // Refuses the call where the agent is stopping.
  Task<absl::Status> UnlessStopping(Task<absl::Status> task);

  // Reads what an onboard asks for and ends the leases that it gives back.
  absl::StatusOr<std::vector<OnboardRequest>> OnboardsOf(const Context& context,
                                                         const v1::OnboardRequest& request);
  // Writes what was leased to `session`; ends the leases at once where the asker is gone, who would
  // never release what it does not know of.
  void Answer(Context* context, SessionId session, const std::vector<Onboarded>& onboarded,
              v1::OnboardResponse* response);
  // Notes the sums that the request carries and adds the reservations they are of to `ids`.
  // Errors: kInvalidArgument, not two numbers for each.
  absl::Status NoteSums(SessionId session, const v1::CommitRequest& request,
                        std::vector<ReservationId>* ids);
  absl::StatusOr<SessionId> FindSession(const std::string& token) const;
  // The end of `timeout_ms` from now, or the caller's own deadline before that.
  absl::StatusOr<absl::Time> DeadlineOf(const Context& context, uint32_t timeout_ms) const;
  // Names the sequences of a request. Errors: kInvalidArgument, naming the field.
  template <typename Request>
  absl::StatusOr<std::vector<BlockRun>> NameRuns(const Request& request) const;
  absl::StatusOr<BlockRun> NameRun(SessionId session, const v1::Sequence& sequence) const;

  Agent* const agent_;
  CallBudget budget_;
  UnaryCalls calls_;
  Rpcs rpcs_;
  const OnboardStream::Method parts_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_WORKER_SERVICE_H_
