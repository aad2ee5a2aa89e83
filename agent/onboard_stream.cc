#include "agent/onboard_stream.h"

#include <utility>

#include "agent/limits.h"
#include "agent/worker_wire.h"
#include "core/status_macros.h"
#include "proto/convert.h"
#include "proto/sequence_keys.h"

namespace kvtier {

size_t OnboardStream::MemoryOf(const v1::OnboardRequest& request) {
  size_t keys = 0;
  for (const v1::Sequence& sequence : request.sequences()) {
    keys += convert::CountEngineKeys(sequence);
  }
  return CallBudget::MemoryOf(request) + keys * kPartsBytesPerKey;
}

void OnboardStream::AskForNext(CallLoop* loop, const Method* method) {
  auto* const next = new OnboardStream(loop, method);
  method->rpcs->RequestOnboardParts(next->context(), &next->request_, &next->writer_, loop->queue(),
                                    loop->queue(), next->arrived());
}

void OnboardStream::Arrive() {
  const absl::Status begun = method_->budget->Begin(this, MemoryOf(request_));
  if (begun.ok()) {
    method_->agent->executor()->RunOrPost([this] { method_->agent->scope()->Spawn(Answer()); });
  } else {
    writer_.Finish(convert::ToGrpc(begun), answered());
  }
  AskForNext(loop(), method_);
}

Task<void> OnboardStream::Answer() {
  const absl::Status sent = co_await SendParts();
  caller_->parts.reset();
  // Either may end this on the loop's thread before it returns.
  if (sent.ok()) {
    writer_.WriteAndFinish(message_, grpc::WriteOptions(), grpc::Status::OK, answered());
  } else {
    writer_.Finish(convert::ToGrpc(sent), answered());
  }
}

Task<absl::Status> OnboardStream::SendParts() {
  Agent* const agent = method_->agent;
  if (agent->stopping()) co_return absl::UnavailableError("this agent is stopping");
  KVT_CO_ASSIGN_OR_RETURN(std::vector<OnboardRequest> requests,
                          method_->read(*context(), request_));
  KVT_CO_ASSIGN_OR_RETURN(caller_->parts,
                          Onboarder::Parts::Begin(&agent->onboarder(), std::move(requests)));
  Onboarder::Parts* const parts = caller_->parts.get();
  if (caller_->is_gone) parts->Cancel();
  for (;;) {
    KVT_CO_ASSIGN_OR_RETURN(const OnboardPart part, co_await parts->Next());
    // Once it is being written, the caller may have it: then its leases end by release, or at
    // their deadline.
    if (context()->IsCancelled()) {
      parts->TakeBack(part);
      co_return absl::CancelledError("the caller is gone");
    }
    message_.Clear();
    FillPart(part, &message_);
    if (!part.missed.empty()) co_return absl::OkStatus();
    const bool is_written =
        co_await AwaitCallback<bool>(agent->executor(), [this](AwaitCallback<bool>::Done done) {
          written_ = std::move(done);
          writer_.Write(message_, message_written_.tag());
        });
    if (!is_written) co_return absl::CancelledError("the caller is gone");
  }
}

void OnboardStream::OnWritten(bool ok) {
  AwaitCallback<bool>::Done written = std::move(written_);
  written(ok);
}

void OnboardStream::OnCancel() {
  method_->agent->executor()->Post([caller = caller_] {
    caller->is_gone = true;
    if (caller->parts != nullptr) caller->parts->Cancel();
  });
}

}  // namespace kvtier
