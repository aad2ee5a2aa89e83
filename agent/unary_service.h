// RunUnary answers one unary RPC by a task on the executor: no gRPC thread waits.
#ifndef KVTIER_AGENT_UNARY_SERVICE_H_
#define KVTIER_AGENT_UNARY_SERVICE_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "proto/convert.h"

namespace kvtier {

namespace unary_internal {

inline Task<void> FinishWith(grpc::ServerUnaryReactor* reactor, Task<absl::Status> task) {
  reactor->Finish(convert::ToGrpc(co_await task));
}

}  // namespace unary_internal

// Spawns `task` on `scope`; its status becomes the RPC's. Any thread.
inline grpc::ServerUnaryReactor* RunUnary(grpc::CallbackServerContext* context, Executor* executor,
                                          TaskScope* scope, Task<absl::Status> task) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  executor->Post([scope, reactor, task = std::move(task)]() mutable {
    scope->Spawn(unary_internal::FinishWith(reactor, std::move(task)));
  });
  return reactor;
}

// What is left of the caller's own deadline (InfiniteDuration: it has none).
inline absl::Duration TimeLeft(const grpc::ServerContextBase& context) {
  return absl::FromChrono(context.deadline()) - absl::Now();
}

}  // namespace kvtier

#endif  // KVTIER_AGENT_UNARY_SERVICE_H_
