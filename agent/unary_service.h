// UnaryCalls answers the unary RPCs of one service, each by a task on the executor: no gRPC
// thread waits. What they take of memory is of a budget, from the moment that a request is whole
// until its answer is sent.
#ifndef KVTIER_AGENT_UNARY_SERVICE_H_
#define KVTIER_AGENT_UNARY_SERVICE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "agent/call_budget.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"

namespace kvtier {

// Thread-safe. REQUIRES: it outlives the server.
class UnaryCalls {
 public:
  // A call that waits for its answer, whatever gRPC's interface to it.
  class Call : public CallBudget::Share {
   public:
    // Sends the answer: the response where `status` is OK. Any thread, once; the call may be gone
    // when it returns.
    virtual void Reply(const absl::Status& status) = 0;
  };

  UnaryCalls(Executor* executor, TaskScope* scope, CallBudget* budget)
      : executor_(executor), scope_(scope), budget_(budget) {}

  // Spawns `task`; its status becomes the call's. A call that the budget refuses is answered at
  // once with RESOURCE_EXHAUSTED.
  void Answer(Call* call, const google::protobuf::MessageLite& request, Task<absl::Status> task);
  // The same of a task that replies to `call` itself, and may go on behind that.
  void Answer(Call* call, const google::protobuf::MessageLite& request, Task<void> task);
  // Answers a call of a callback service likewise.
  grpc::ServerUnaryReactor* Run(grpc::CallbackServerContext* context,
                                const google::protobuf::MessageLite& request,
                                Task<absl::Status> task);

 private:
  static Task<void> ReplyWith(Call* call, Task<absl::Status> task);

  Executor* const executor_;
  TaskScope* const scope_;
  CallBudget* const budget_;
};

// What is left of the caller's own deadline (InfiniteDuration: it has none).
inline absl::Duration TimeLeft(const grpc::ServerContextBase& context) {
  return absl::FromChrono(context.deadline()) - absl::Now();
}

}  // namespace kvtier

#endif  // KVTIER_AGENT_UNARY_SERVICE_H_
