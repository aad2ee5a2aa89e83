#include "client/lanes/compute_steps.h"

#include <utility>

#include "core/status_macros.h"

namespace kvtier {

ComputeSteps::ComputeSteps(const Parts& parts, std::shared_ptr<const SignalPage> page)
    : parts_(parts), page_(std::move(page)), word_(page_->word(0)) {}

absl::Status ComputeSteps::End(uint64_t step) {
  if (step <= given_) return absl::OkStatus();
  KVT_RETURN_IF_ERROR(parts_.device->Signal(Lane::kCompute, word_, step).status());
  given_ = step;
  if (!looking_) LookAgain();
  return absl::OkStatus();
}

void ComputeSteps::LookAgain() {
  looking_ = true;
  parts_.executor->PostAt(parts_.executor->Now() + kPollInterval, [this] {
    parts_.runner->Poll();  // Some devices go on only then.
    const uint64_t ended = word_->load(std::memory_order_relaxed);
    if (ended > told_ && parts_.device->Reached(*word_, ended)) {
      parts_.client->EndStep(told_ = ended);
    }
    looking_ = false;
    if (told_ < given_) LookAgain();
  });
}

}  // namespace kvtier
