// UnaryCalls answers the unary RPCs of one service, each by a task on the executor: no gRPC
// thread waits. What they take of memory is bounded, from the moment that a request is whole
// until its answer is sent.
#ifndef KVTIER_AGENT_UNARY_SERVICE_H_
#define KVTIER_AGENT_UNARY_SERVICE_H_

#include <cstddef>
#include <list>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
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
  struct Limits {
    size_t bytes = 0;  // As MemoryOf() counts them, all calls together.
    // A caller that does not read its answer holds it; this long after it began, a call makes
    // room for others.
    absl::Duration duration;
  };
  UnaryCalls(Executor* executor, TaskScope* scope, Limits limits)
      : executor_(executor), scope_(scope), limits_(limits) {}

  // What a call takes of memory: its request, its answer, gRPC's part and its flow.
  static size_t MemoryOf(const google::protobuf::MessageLite& request);

  // Spawns `task`; its status becomes the RPC's. A call beyond limits.bytes is answered at once
  // with RESOURCE_EXHAUSTED, and those that lasted too long are cut for the next one.
  grpc::ServerUnaryReactor* Run(grpc::CallbackServerContext* context,
                                const google::protobuf::MessageLite& request,
                                Task<absl::Status> task) ABSL_LOCKS_EXCLUDED(mu_);
  // Of the calls under way.
  size_t bytes() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Call;
  absl::Status Begin(Call* call) ABSL_LOCKS_EXCLUDED(mu_);
  void End(Call* call) ABSL_LOCKS_EXCLUDED(mu_);
  static Task<void> FinishWith(Call* call, Task<absl::Status> task);

  Executor* const executor_;
  TaskScope* const scope_;
  const Limits limits_;
  mutable absl::Mutex mu_;
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::list<Call*> calls_ ABSL_GUARDED_BY(mu_);  // The one that began first is in front.
};

// What is left of the caller's own deadline (InfiniteDuration: it has none).
inline absl::Duration TimeLeft(const grpc::ServerContextBase& context) {
  return absl::FromChrono(context.deadline()) - absl::Now();
}

}  // namespace kvtier

#endif  // KVTIER_AGENT_UNARY_SERVICE_H_
