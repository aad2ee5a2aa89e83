#include "client/lanes/compute_mark.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/event.h"

namespace kvtier {
namespace {

// Interval at which the word is read.
constexpr absl::Duration kMarkInterval = absl::Microseconds(200);

}  // namespace

Task<absl::Status> AwaitMark(const LaneParts& parts, const ComputeMark& mark,
                             absl::Duration timeout) {
  if (mark.word == nullptr) co_return absl::OkStatus();
  const absl::Time deadline = parts.executor->Now() + timeout;
  while (!parts.device->Reached(*mark.word, mark.value)) {
    const absl::Time now = parts.executor->Now();
    if (now >= deadline) {
      co_return absl::DeadlineExceededError(
          absl::StrCat("lanes: the engine's progress word did not reach ", mark.value, " in ",
                       absl::FormatDuration(timeout)));
    }
    SleepUntil sleep(parts.executor, std::min(deadline, now + kMarkInterval));
    co_await sleep;
    parts.runner->Poll();
  }
  if (mark.value < kReleased && parts.device->Reached(*mark.word, kReleased)) {
    co_return absl::AbortedError(
        "lanes: the job before this one on the same blocks ended without signalling; submit this "
        "one again");
  }
  co_return absl::OkStatus();
}

}  // namespace kvtier
