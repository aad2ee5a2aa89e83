#include "agent/unary_service.h"

#include <utility>

#include "proto/convert.h"

namespace kvtier {
namespace {

// gRPC keeps it until the answer is sent and then calls OnDone(), which ends it.
class ReactorCall final : public grpc::ServerUnaryReactor, public UnaryCalls::Call {
 public:
  explicit ReactorCall(grpc::CallbackServerContext* context) : context_(context) {}
  void Reply(const absl::Status& status) override { Finish(convert::ToGrpc(status)); }
  void Cut() override { context_->TryCancel(); }
  void OnDone() override {
    End();
    delete this;
  }
  // Lets the thread that has sent the answer call OnDone(): another one costs each call a switch
  // of threads. TryCancel() may be called under the lock that OnDone() takes all the same: what
  // it ends is told by gRPC's own threads, and never inside of it.
  bool InternalInlineable() override { return true; }

 private:
  grpc::CallbackServerContext* const context_;
};

}  // namespace

Task<void> UnaryCalls::ReplyWith(Call* call, Task<absl::Status> task) {
  call->Reply(co_await task);
}

void UnaryCalls::Answer(Call* call, const google::protobuf::MessageLite& request,
                        Task<absl::Status> task) {
  Answer(call, request, ReplyWith(call, std::move(task)));
}

void UnaryCalls::Answer(Call* call, const google::protobuf::MessageLite& request, Task<void> task) {
  if (const absl::Status begun = budget_->Begin(call, CallBudget::MemoryOf(request)); !begun.ok()) {
    call->Reply(begun);
    return;
  }
  // At once, on gRPC's thread, where nothing else is being decided: an answer from memory needs no
  // other thread.
  executor_->RunOrPost(
      [scope = scope_, task = std::move(task)]() mutable { scope->Spawn(std::move(task)); });
}

grpc::ServerUnaryReactor* UnaryCalls::Run(grpc::CallbackServerContext* context,
                                          const google::protobuf::MessageLite& request,
                                          Task<absl::Status> task) {
  auto* const call = new ReactorCall(context);
  Answer(call, request, std::move(task));
  return call;
}

}  // namespace kvtier
