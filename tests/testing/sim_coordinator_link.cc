#include "tests/testing/sim_coordinator_link.h"

#include <functional>
#include <memory>
#include <utility>

#include "coordinator/coordinator.h"
#include "core/event.h"

namespace kvtier::testing {
namespace {

constexpr uint64_t kCallBytes = 256;

// Both ends of one call, and the messages between them, share this state. An answer is ignored if
// no caller waits for it any more.
template <typename T>
struct Call {
  explicit Call(Executor* executor) : done(executor) {}
  absl::StatusOr<T> answer = absl::DeadlineExceededError("coordinator: no answer");
  Event done;
};

template <typename T>
using Serve = std::function<absl::StatusOr<T>(Coordinator*)>;

// Serves the request at the coordinator's end and answers it.
template <typename T>
void Answer(SimNetwork* network, const std::string& asker, const std::shared_ptr<Call<T>>& call,
            const Serve<T>& serve) {
  if (network->coordinator_frozen()) return;
  absl::StatusOr<T> answer = absl::UnavailableError("coordinator: connection refused");
  if (network->coordinator() != nullptr) answer = serve(network->coordinator());
  network->Send(kCoordinatorAddress, asker, kCallBytes, [call, answer = std::move(answer)] {
    if (call->done.is_set()) return;
    call->answer = answer;
    call->done.Set();
  });
}

template <typename T>
Task<absl::StatusOr<T>> Ask(Executor* executor, SimNetwork* network, std::string asker,
                            Serve<T> serve, absl::Time deadline) {
  const auto call = std::make_shared<Call<T>>(executor);
  std::function<void()> deliver = [network, asker, call, serve] {
    Answer<T>(network, asker, call, serve);
  };
  network->Send(asker, kCoordinatorAddress, kCallBytes, std::move(deliver));
  co_await call->done.WaitUntil(deadline);
  co_return call->answer;
}

}  // namespace

Task<absl::StatusOr<ReportReply>> SimCoordinatorLink::Send(Report report, absl::Time deadline) {
  Serve<ReportReply> serve = [report = std::move(report)](Coordinator* coordinator) {
    return coordinator->OnReport(report);
  };
  return Ask<ReportReply>(executor_, network_, self_, std::move(serve), deadline);
}

Task<absl::StatusOr<LocateReply>> SimCoordinatorLink::Locate(LocateQuery query,
                                                             absl::Time deadline) {
  Serve<LocateReply> serve = [query = std::move(query)](Coordinator* coordinator) {
    return absl::StatusOr<LocateReply>(coordinator->Locate(query));
  };
  return Ask<LocateReply>(executor_, network_, self_, std::move(serve), deadline);
}

}  // namespace kvtier::testing
