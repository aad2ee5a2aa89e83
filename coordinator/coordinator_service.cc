#include "coordinator/coordinator_service.h"

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "proto/convert.h"

namespace kvtier {
namespace {

static_assert(kMaxHoldersPerReply <= convert::kMaxHoldersPerBlock);
static_assert(CoordinatorOptions{}.max_nodes <= convert::kMaxNodesPerReply);

// AgentCall is one call of an agent: it waits for its turn, unless its caller gives up before. gRPC
// calls OnDone(), which deletes it, when the answer is sent.
class AgentCall final : public grpc::ServerUnaryReactor, public CallLine::Call {
 public:
  using Answer = absl::AnyInvocable<grpc::Status()>;
  AgentCall(grpc::CallbackServerContext* context, CallLine* line, std::string node, Answer answer)
      : context_(context), line_(line), node_(std::move(node)), answer_(std::move(answer)) {}

  void Begin(size_t request_bytes) { line_->Add(node_, request_bytes, this); }
  // A report that is applied although its agent has given up on it is only a duplicate later, but
  // not applying it is cheaper.
  void Run() override { Finish(context_->IsCancelled() ? GivenUp() : answer_()); }
  void Refuse() override {
    Finish({grpc::StatusCode::RESOURCE_EXHAUSTED,
            "the coordinator is busy: too many calls wait for their turn; ask again later"});
  }
  void OnCancel() override {
    if (line_->Remove(node_, this)) Finish(GivenUp());
  }
  void OnDone() override { delete this; }

 private:
  static grpc::Status GivenUp() {
    return {grpc::StatusCode::CANCELLED, "the caller gave up before its turn"};
  }

  grpc::CallbackServerContext* const context_;
  CallLine* const line_;
  const std::string node_;
  Answer answer_;
};

}  // namespace

grpc::ServerUnaryReactor* CoordinatorService::Report(grpc::CallbackServerContext* context,
                                                     const v1::ReportRequest* request,
                                                     v1::ReportResponse* response) {
  // A node's reports do not wait for its locates: no node id has a blank.
  const std::string turns = absl::StrCat(request->node_id(), " reports");
  auto* const call = new AgentCall(
      context, &line_, turns, [this, request, response] { return Answer(*request, response); });
  call->Begin(request->ByteSizeLong());
  return call;
}

grpc::ServerUnaryReactor* CoordinatorService::Locate(grpc::CallbackServerContext* context,
                                                     const v1::LocateRequest* request,
                                                     v1::LocateResponse* response) {
  auto* const call = new AgentCall(context, &line_, request->node_id(), [this, request, response] {
    return Answer(*request, response);
  });
  call->Begin(request->ByteSizeLong());
  return call;
}

grpc::Status CoordinatorService::Answer(const v1::ReportRequest& request,
                                        v1::ReportResponse* response) {
  const absl::StatusOr<kvtier::Report> report = convert::ReportFrom(request);
  if (!report.ok()) return convert::ToGrpc(report.status());
  absl::StatusOr<ReportReply> reply;
  {
    absl::MutexLock lock(&coordinator_->mu);
    reply = coordinator_->coordinator.OnReport(*report);
  }
  if (!reply.ok()) return convert::ToGrpc(reply.status());
  *response = convert::ToWire(*reply, build_);
  return grpc::Status::OK;
}

grpc::Status CoordinatorService::Answer(const v1::LocateRequest& request,
                                        v1::LocateResponse* response) {
  const absl::StatusOr<LocateQuery> query = convert::LocateQueryFrom(request);
  if (!query.ok()) return convert::ToGrpc(query.status());
  LocateReply reply;
  {
    absl::MutexLock lock(&coordinator_->mu);
    reply = coordinator_->coordinator.Locate(*query);
  }
  *response = convert::ToWire(reply);
  return grpc::Status::OK;
}

}  // namespace kvtier
