#include "agent/services/onboard_stream.h"

#include <utility>

#include "agent/limits.h"
#include "agent/services/worker_wire.h"
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

OnboardStream* OnboardStream::Run(const Home& home, grpc::CallbackServerContext* context,
                                  size_t bytes, Caller caller, Ask ask) {
  auto* const call = new OnboardStream(home.agent, home.budget, context, bytes);
  if (const absl::Status begun = home.budget->Begin(call, caller.session_token); !begun.ok()) {
    call->Finish(convert::ToGrpc(begun));
    return call;
  }
  home.agent->turns().Run(bytes, std::move(caller.tenant),
                          [scope = home.agent->scope(), call, ask = std::move(ask)]() mutable {
                            scope->Spawn(call->Answer(std::move(ask)));
                          });
  return call;
}

Task<void> OnboardStream::Answer(Ask ask) {
  const absl::Status sent = co_await SendParts(std::move(ask));
  served_->parts.reset();
  // Either call may delete this object, on another thread, before it returns.
  if (sent.ok()) {
    StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
  } else {
    Finish(convert::ToGrpc(sent));
  }
}

Task<absl::Status> OnboardStream::SendParts(Ask ask) {
  if (agent_->stopping()) {
    co_return absl::UnavailableError("this agent is stopping; try again when it has restarted");
  }
  KVT_CO_ASSIGN_OR_RETURN(std::vector<OnboardRequest> requests, co_await ask());
  KVT_CO_ASSIGN_OR_RETURN(served_->parts,
                          Onboarder::Parts::Begin(&agent_->flows().onboarder, std::move(requests)));
  Onboarder::Parts* const parts = served_->parts.get();
  if (served_->is_gone) parts->Cancel();
  for (;;) {
    KVT_CO_ASSIGN_OR_RETURN(const OnboardPart part, co_await parts->Next());
    // Once a part is being written, the caller may have it. Its leases then end by release, or at
    // their deadline.
    if (context_->IsCancelled()) {
      parts->TakeBack(part);
      co_return absl::CancelledError("the caller is gone");
    }
    message_.Clear();
    FillPart(part, &message_);
    if (!part.missed.empty()) co_return absl::OkStatus();
    const bool is_written =
        co_await AwaitCallback<bool>(agent_->executor(), [this](AwaitCallback<bool>::Done done) {
          written_ = std::move(done);
          StartWrite(&message_);
        });
    if (!is_written) co_return absl::CancelledError("the caller is gone");
  }
}

void OnboardStream::OnWriteDone(bool ok) {
  AwaitCallback<bool>::Done written = std::move(written_);
  written(ok);
}

void OnboardStream::OnCancel() {
  agent_->executor()->Post([served = served_] {
    served->is_gone = true;
    if (served->parts != nullptr) served->parts->Cancel();
  });
}

void OnboardStream::OnDone() {
  budget_->End(this);
  delete this;
}

}  // namespace kvtier
