// ClientCall is a Client's call that does not block, in a form that a Task can await.
#ifndef KVTIER_CLIENT_LANES_CLIENT_CALL_H_
#define KVTIER_CLIENT_LANES_CLIENT_CALL_H_

#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/event.h"

namespace kvtier {

// ClientCall gives, to a co_await, the call's result, or why it was not made.
template <typename Result>
using ClientCall = AwaitCallback<absl::StatusOr<Result>>;

// Adapts `submit(told)`: as with Client's Submit functions, `told` is called once or, on an error,
// not at all.
template <typename Result, typename Submit>
typename ClientCall<Result>::Start StartOf(Submit submit) {
  using Done = typename ClientCall<Result>::Done;
  return [submit = std::move(submit)](Done answered) mutable {
    const auto done = std::make_shared<Done>(std::move(answered));
    const absl::Status submitted =
        submit([done](Result result) { (*done)(absl::StatusOr<Result>(std::move(result))); });
    if (!submitted.ok()) (*done)(submitted);
  };
}

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_CLIENT_CALL_H_
