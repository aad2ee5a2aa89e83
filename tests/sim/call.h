// Call is a worker's request to its agent: it travels, runs as a flow of the agent,
// and comes back, or breaks when the agent dies.
#ifndef KVTIER_TESTS_SIM_CALL_H_
#define KVTIER_TESTS_SIM_CALL_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/task.h"
#include "tests/sim/oracle.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/worker_order.h"

namespace kvtier::sim {

// Time of one way through a Unix socket and a gRPC stack.
inline constexpr absl::Duration kCallTravel = absl::Microseconds(40);

template <typename T>
class Call final : public CallInFlight {
 public:
  Call(Executor* caller, SimNode* node, std::shared_ptr<WorkerOrder> order)
      : node_(node), order_(std::move(order)), done_(caller) {
    node_->Register(this);
  }
  ~Call() override { node_->Unregister(this); }

  void Answer(T value) {
    answer_.emplace(std::move(value));
    answered_ = order_->AgentAnswers();
    done_.Set();
  }
  void Break() override { done_.Set(); }
  Event& done() { return done_; }
  absl::StatusOr<T> Take() {
    if (!answer_.has_value()) return absl::UnavailableError("the agent died");
    order_->Receives(answered_);
    return *std::move(answer_);
  }

 private:
  SimNode* const node_;
  const std::shared_ptr<WorkerOrder> order_;
  std::optional<T> answer_;
  WorkerOrder::Clock answered_;
  Event done_;
};

template <typename T>
struct Request {
  const char* name = "";
  std::shared_ptr<WorkerOrder> order;  // Order of the worker that asks.
  absl::AnyInvocable<Task<T>(Agent&)> start;
  // Maximum time in the agent, from the request's arrival to its end.
  absl::Duration timeout;
};

template <typename T>
Task<void> ServeCall(Task<T> work, std::shared_ptr<Call<T>> call) {
  T value = co_await work;
  call->Answer(std::move(value));
}

// Makes the call and returns its result. Errors: kUnavailable, the agent is gone or died meanwhile.
template <typename T>
Task<absl::StatusOr<T>> CallAgent(Executor* caller, SimNode* node, Oracle* oracle,
                                  Request<T> request) {
  const WorkerOrder::Clock asked = request.order->Asks();
  co_await SleepUntil(caller, caller->Now() + kCallTravel);
  if (!node->serves()) co_return absl::UnavailableError("no agent");
  const absl::Time deadline = caller->Now() + request.timeout;
  const auto call = std::make_shared<Call<T>>(caller, node, request.order);
  request.order->AgentReceives(asked);
  node->agent().scope()->Spawn(ServeCall<T>(request.start(node->agent()), call));
  // A request that ends in time may take its last step after this timer, at the same instant.
  co_await call->done().WaitUntil(deadline + absl::Nanoseconds(1));
  oracle->Expect(call->done().is_set(), std::string(request.name) + " hangs past its deadline");
  co_await SleepUntil(caller, caller->Now() + kCallTravel);
  co_return call->Take();
}

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_CALL_H_
