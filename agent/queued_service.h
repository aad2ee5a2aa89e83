// A QueuedService has its unary RPCs from a CallLoop by ServeUnary(): it says for each how gRPC is
// asked for the next call, and what answers it.
#ifndef KVTIER_AGENT_QUEUED_SERVICE_H_
#define KVTIER_AGENT_QUEUED_SERVICE_H_

#include "absl/status/status.h"
#include "agent/unary_service.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/async_unary_call.h"
#include "proto/call_loop.h"
#include "proto/convert.h"

namespace kvtier {

// How gRPC is asked for the next call of an RPC; `Rpcs` is a base class of the AsyncService.
template <typename Rpcs, typename Request, typename Response>
using AskForUnary = void (Rpcs::*)(grpc::ServerContext* context, Request* request,
                                   grpc::ServerAsyncResponseWriter<Response>* writer,
                                   grpc::CompletionQueue* call_queue,
                                   grpc::ServerCompletionQueue* queue, void* tag);

// Begins to answer `call`, which gets its reply once, on any thread, at once or later. Runs on the
// loop's thread.
template <typename Service, typename Request, typename Response>
using AnswerUnary = void (Service::*)(UnaryCalls::Call* call, grpc::ServerContextBase* context,
                                      const Request* request, Response* response);

// One call of an RPC of `Service`.
template <typename Service, typename Rpcs, typename Request, typename Response>
class QueuedUnary final : public QueuedCall, public UnaryCalls::Call {
 public:
  struct Method {
    Service* service = nullptr;
    AskForUnary<Rpcs, Request, Response> ask = nullptr;
    AnswerUnary<Service, Request, Response> answer = nullptr;
  };

  // Asks for the next call of `method`. REQUIRES: its service outlives the server.
  static void AskForNext(CallLoop* loop, const Method& method) {
    auto* const next = new QueuedUnary(loop, method);
    (method.service->rpcs()->*method.ask)(next->context(), &next->request_, &next->writer_,
                                          loop->queue(), loop->queue(), next->arrived());
  }

  void Reply(const absl::Status& status) override {
    if (status.ok()) {
      writer_.Finish(response_, grpc::Status::OK, answered());
    } else {
      writer_.FinishWithError(convert::ToGrpc(status), answered());
    }
  }
  void Cut() override { context()->TryCancel(); }

 private:
  QueuedUnary(CallLoop* loop, const Method& method) : QueuedCall(loop), method_(method) {}
  ~QueuedUnary() override { End(); }

  void Arrive() override {
    (method_.service->*method_.answer)(this, context(), &request_, &response_);
    // Behind the answer, for which a caller waits. This call is still here: it ends on this thread.
    AskForNext(loop(), method_);
  }

  const Method method_;
  Request request_;
  Response response_;
  grpc::ServerAsyncResponseWriter<Response> writer_{context()};
};

// Has `answer` of `service` answer the calls of an RPC. REQUIRES: as QueuedService::Serve().
template <typename Service, typename Rpcs, typename Request, typename Response>
void ServeUnary(CallLoop* loop, Service* service, AskForUnary<Rpcs, Request, Response> ask,
                AnswerUnary<Service, Request, Response> answer) {
  QueuedUnary<Service, Rpcs, Request, Response>::AskForNext(
      loop, {.service = service, .ask = ask, .answer = answer});
}

}  // namespace kvtier

#endif  // KVTIER_AGENT_QUEUED_SERVICE_H_
