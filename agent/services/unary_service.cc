#include "agent/services/unary_service.h"

#include <utility>

#include "proto/convert.h"

namespace kvtier {

// Call is one call in progress. gRPC calls its OnDone(), which deletes it, when the answer is sent.
class UnaryCalls::Call final : public grpc::ServerUnaryReactor, public CallBudget::Share {
 public:
  Call(CallBudget* budget, grpc::CallbackServerContext* context, size_t bytes)
      : CallBudget::Share(bytes), budget_(budget), context_(context) {}
  void Cut() override { context_->TryCancel(); }
  void OnDone() override {
    budget_->End(this);
    delete this;
  }
  // Lets the thread that has sent the answer call OnDone(), which saves each call a switch of
  // threads. The budget may still call TryCancel() under the lock that OnDone() takes: gRPC's own
  // threads then call OnDone(), and never TryCancel() itself.
  bool InternalInlineable() override { return true; }

 private:
  CallBudget* const budget_;
  grpc::CallbackServerContext* const context_;
};

Task<void> UnaryCalls::FinishWith(Call* call, Task<absl::Status> task) {
  call->Finish(convert::ToGrpc(co_await task));
}

grpc::ServerUnaryReactor* UnaryCalls::Run(grpc::CallbackServerContext* context,
                                          const google::protobuf::MessageLite& request,
                                          Task<absl::Status> task) {
  return Run(context, request, std::move(task), Caller());
}

grpc::ServerUnaryReactor* UnaryCalls::Run(grpc::CallbackServerContext* context,
                                          const google::protobuf::MessageLite& request,
                                          Task<absl::Status> task, Caller caller) {
  const size_t bytes = CallBudget::MemoryOf(request);
  Call* const call = new Call(budget_, context, bytes);
  if (const absl::Status begun = budget_->Begin(call, caller.session_token); !begun.ok()) {
    call->Finish(convert::ToGrpc(begun));
    return call;
  }
  // The task begins at once on gRPC's thread while the executor is idle, so that an answer from
  // memory needs no other thread.
  auto begin = [scope = scope_, call, task = std::move(task)]() mutable {
    scope->Spawn(FinishWith(call, std::move(task)));
  };
  if (caller.tenant == nullptr) {
    executor_->RunOrPost(std::move(begin));
  } else {
    turns_->Run(bytes, std::move(caller.tenant), std::move(begin));
  }
  return call;
}

}  // namespace kvtier
