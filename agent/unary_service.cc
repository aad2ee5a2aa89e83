#include "agent/unary_service.h"

#include <utility>

#include "proto/convert.h"

namespace kvtier {

// gRPC keeps it until the answer is sent and then calls OnDone(), which ends it.
class UnaryCalls::Call final : public grpc::ServerUnaryReactor {
 public:
  Call(CallBudget* budget, grpc::CallbackServerContext* context, size_t bytes)
      : budget_(budget), share_(context, bytes) {}
  void OnDone() override {
    budget_->End(&share_);
    delete this;
  }
  // Lets the thread that has sent the answer call OnDone(): another one costs each call a switch
  // of threads. TryCancel() may be called under the lock that OnDone() takes all the same: what
  // it ends is told by gRPC's own threads, and never inside of it.
  bool InternalInlineable() override { return true; }
  absl::Status Begin() { return budget_->Begin(&share_); }

 private:
  CallBudget* const budget_;
  CallBudget::Share share_;
};

Task<void> UnaryCalls::FinishWith(Call* call, Task<absl::Status> task) {
  call->Finish(convert::ToGrpc(co_await task));
}

grpc::ServerUnaryReactor* UnaryCalls::Run(grpc::CallbackServerContext* context,
                                          const google::protobuf::MessageLite& request,
                                          Task<absl::Status> task) {
  Call* const call = new Call(budget_, context, CallBudget::MemoryOf(request));
  if (const absl::Status begun = call->Begin(); !begun.ok()) {
    call->Finish(convert::ToGrpc(begun));
    return call;
  }
  // At once, on gRPC's thread, where nothing else is being decided: an answer from memory needs no
  // other thread.
  executor_->RunOrPost([scope = scope_, call, task = std::move(task)]() mutable {
    scope->Spawn(FinishWith(call, std::move(task)));
  });
  return call;
}

}  // namespace kvtier
