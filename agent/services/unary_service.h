// UnaryCalls answers the unary RPCs of one service, each by a task on the executor, so that no gRPC
// thread waits. The memory of a call is charged to a CallBudget from the time when its request is
// complete until its answer is sent.
#ifndef KVTIER_AGENT_SERVICES_UNARY_SERVICE_H_
#define KVTIER_AGENT_SERVICES_UNARY_SERVICE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "agent/services/call_budget.h"
#include "agent/sessions/fair_turns.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "proto/link.h"

namespace kvtier {

// Caller says for which session and tenant a call is.
struct Caller {
  absl::string_view session_token;  // Names the session that pays for its memory.
  // Tenant in whose turn the call begins; null: the call begins at once.
  FairTurns::WhoseCall tenant;
};

// Thread-safe. REQUIRES: it outlives the server.
class UnaryCalls {
 public:
  // `turns` decides when the calls of Run() with a tenant begin; null: there are none.
  UnaryCalls(Executor* executor, TaskScope* scope, CallBudget* budget, FairTurns* turns = nullptr)
      : executor_(executor), scope_(scope), budget_(budget), turns_(turns) {}

  // Spawns `task`; its status becomes the RPC's. A call that the budget refuses is answered at
  // once with RESOURCE_EXHAUSTED.
  grpc::ServerUnaryReactor* Run(grpc::CallbackServerContext* context,
                                const google::protobuf::MessageLite& request,
                                Task<absl::Status> task);
  // Runs a call, as above, but charges it to the caller's tenant and begins it in that tenant's
  // turn. REQUIRES: `turns` is not null.
  grpc::ServerUnaryReactor* Run(grpc::CallbackServerContext* context,
                                const google::protobuf::MessageLite& request,
                                Task<absl::Status> task, Caller caller);

 private:
  class Call;
  static Task<void> FinishWith(Call* call, Task<absl::Status> task);

  Executor* const executor_;
  TaskScope* const scope_;
  CallBudget* const budget_;
  FairTurns* const turns_;
};

// Returns what is left of the caller's own deadline (InfiniteDuration: it has none).
inline absl::Duration TimeLeft(const grpc::ServerContextBase& context) {
  return LeftUntil(context.deadline());
}

}  // namespace kvtier

#endif  // KVTIER_AGENT_SERVICES_UNARY_SERVICE_H_
