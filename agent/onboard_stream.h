// OnboardStream answers one OnboardParts RPC: it sends each part as soon as the part before is
// written, from a task on the executor. One message is in its memory at a time, however slow the
// caller reads.
#ifndef KVTIER_AGENT_ONBOARD_STREAM_H_
#define KVTIER_AGENT_ONBOARD_STREAM_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/agent.h"
#include "agent/call_budget.h"
#include "agent/onboard.h"
#include "agent/onboard_parts.h"
#include "core/event.h"
#include "core/task.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/async_stream.h"
#include "kvtier/v1/worker.grpc.pb.h"
#include "proto/call_loop.h"

namespace kvtier {

class OnboardStream final : public QueuedCall, public CallBudget::Share {
 public:
  // What the calls of one service have in common.
  struct Method {
    v1::Worker::AsyncService* rpcs = nullptr;
    Agent* agent = nullptr;
    CallBudget* budget = nullptr;
    // Reads a request, on the executor.
    std::function<absl::StatusOr<std::vector<OnboardRequest>>(
        const grpc::ServerContextBase& context, const v1::OnboardRequest& request)>
        read;
  };

  // Returns what a call takes of memory.
  static size_t MemoryOf(const v1::OnboardRequest& request);
  // Asks for the next call. One that the budget refuses is answered at once with
  // RESOURCE_EXHAUSTED. REQUIRES: `method` and what it names outlive the server.
  static void AskForNext(CallLoop* loop, const Method* method);

  void Cut() override { context()->TryCancel(); }

 private:
  // What is under way for the caller. Of the executor; a cancellation may come behind the end of
  // the call.
  struct Caller {
    bool is_gone = false;
    std::shared_ptr<Onboarder::Parts> parts;  // Null: not begun, or over.
  };
  OnboardStream(CallLoop* loop, const Method* method) : QueuedCall(loop), method_(method) {}
  ~OnboardStream() override { End(); }

  void Arrive() override;
  void OnCancel() override;
  void OnWritten(bool ok);
  Task<void> Answer();
  // Sends all parts but the last, which is in message_ when it returns OK.
  Task<absl::Status> SendParts();

  const Method* const method_;
  v1::OnboardRequest request_;
  grpc::ServerAsyncWriter<v1::OnboardPart> writer_{context()};
  const std::shared_ptr<Caller> caller_ = std::make_shared<Caller>();
  v1::OnboardPart message_;  // Being written.
  CallLoop::EventOf<OnboardStream, &OnboardStream::OnWritten> message_written_{this};
  AwaitCallback<bool>::Done written_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_ONBOARD_STREAM_H_
