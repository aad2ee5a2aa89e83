#include "agent/unary_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "proto/convert.h"

namespace kvtier {

// gRPC keeps it until the answer is sent and then calls OnDone(), which ends it.
class UnaryCalls::Call final : public grpc::ServerUnaryReactor {
 public:
  Call(UnaryCalls* calls, grpc::CallbackServerContext* context, size_t bytes)
      : calls_(calls), context_(context), bytes_(bytes), began_(absl::Now()) {}
  void OnDone() override {
    calls_->End(this);
    delete this;
  }
  // Lets the thread that has sent the answer call OnDone(): another one costs each call a switch
  // of threads. TryCancel() may be called under the lock that OnDone() takes all the same: what
  // it ends is told by gRPC's own threads, and never inside of it.
  bool InternalInlineable() override { return true; }

 private:
  friend class UnaryCalls;
  UnaryCalls* const calls_;
  grpc::CallbackServerContext* const context_;
  const size_t bytes_;
  const absl::Time began_;
  bool counted_ = false;                 // Of calls_->mu_, as what follows.
  std::list<Call*>::iterator position_;  // Where it is counted.
};

size_t UnaryCalls::MemoryOf(const google::protobuf::MessageLite& request) {
  return kCallBytes + kCallBytesPerRequestByte * request.ByteSizeLong();
}

size_t UnaryCalls::bytes() const {
  absl::MutexLock lock(&mu_);
  return bytes_;
}

absl::Status UnaryCalls::Begin(Call* call) {
  absl::MutexLock lock(&mu_);
  if (bytes_ + call->bytes_ > limits_.bytes) {
    for (Call* const other : calls_) {
      if (call->began_ - other->began_ < limits_.duration) break;
      other->context_->TryCancel();
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("calls: those under way take ", bytes_, " bytes, and this one of ",
                     call->bytes_, " is beyond the ", limits_.bytes, " that there are"));
  }
  bytes_ += call->bytes_;
  call->position_ = calls_.insert(calls_.end(), call);
  call->counted_ = true;
  return absl::OkStatus();
}

void UnaryCalls::End(Call* call) {
  absl::MutexLock lock(&mu_);
  if (!call->counted_) return;
  bytes_ -= call->bytes_;
  calls_.erase(call->position_);
}

Task<void> UnaryCalls::FinishWith(Call* call, Task<absl::Status> task) {
  call->Finish(convert::ToGrpc(co_await task));
}

grpc::ServerUnaryReactor* UnaryCalls::Run(grpc::CallbackServerContext* context,
                                          const google::protobuf::MessageLite& request,
                                          Task<absl::Status> task) {
  Call* const call = new Call(this, context, MemoryOf(request));
  if (const absl::Status begun = Begin(call); !begun.ok()) {
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
