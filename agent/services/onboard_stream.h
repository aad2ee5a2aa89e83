// OnboardStream answers one OnboardParts RPC: it sends each part as soon as the part before is
// written, from a task on the executor. One message is in its memory at a time, however slow the
// caller reads.
#ifndef KVTIER_AGENT_SERVICES_ONBOARD_STREAM_H_
#define KVTIER_AGENT_SERVICES_ONBOARD_STREAM_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/agent.h"
#include "agent/flows/onboard.h"
#include "agent/flows/onboard_parts.h"
#include "agent/services/call_budget.h"
#include "agent/services/unary_service.h"
#include "core/event.h"
#include "core/task.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "kvtier/v1/worker.pb.h"

namespace kvtier {

class OnboardStream final : public grpc::ServerWriteReactor<v1::OnboardPart>,
                            public CallBudget::Share {
 public:
  // Reads the request, on the executor.
  using Ask = absl::AnyInvocable<Task<absl::StatusOr<std::vector<OnboardRequest>>>()>;

  // Home is what calls use to answer. All of it outlives the server.
  struct Home {
    Agent* agent = nullptr;
    CallBudget* budget = nullptr;
  };

  // Returns the bytes of memory that a call takes: CallBudget::MemoryOf() and kPartsBytesPerKey a
  // key.
  static size_t MemoryOf(const v1::OnboardRequest& request);
  // Begins to answer, in the turn of the tenant whose call it is; gRPC owns what is returned. A
  // call that the budget refuses is answered at once with RESOURCE_EXHAUSTED.
  static OnboardStream* Run(const Home& home, grpc::CallbackServerContext* context, size_t bytes,
                            Caller caller, Ask ask);

  void Cut() override { context_->TryCancel(); }
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  // Served is the onboard in progress for the caller, used on the executor only. It is shared,
  // because a cancellation may come after the end of the call.
  struct Served {
    bool is_gone = false;
    // Parts of the running onboard; null before it begins and after it ended.
    std::shared_ptr<Onboarder::Parts> parts;
  };
  OnboardStream(Agent* agent, CallBudget* budget, grpc::CallbackServerContext* context,
                size_t bytes)
      : CallBudget::Share(bytes), agent_(agent), budget_(budget), context_(context) {}

  Task<void> Answer(Ask ask);
  // Sends all parts but the last, which is in message_ when it returns OK.
  Task<absl::Status> SendParts(Ask ask);

  Agent* const agent_;
  CallBudget* const budget_;
  grpc::CallbackServerContext* const context_;
  const std::shared_ptr<Served> served_ = std::make_shared<Served>();
  v1::OnboardPart message_;  // Message that is being written.
  AwaitCallback<bool>::Done written_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SERVICES_ONBOARD_STREAM_H_
