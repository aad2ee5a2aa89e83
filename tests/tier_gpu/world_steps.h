// WorldSteps are the steps of one worker of a GpuWorld. The worker's compute lane says that a step
// ended, in the signal page that the worker shares with the agent.
#ifndef KVTIER_TESTS_TIER_GPU_WORLD_STEPS_H_
#define KVTIER_TESTS_TIER_GPU_WORLD_STEPS_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "tier_gpu/device/device.h"
#include "tier_gpu/device/signal_page.h"
#include "tier_gpu/lane_runner.h"
#include "tier_gpu/step_words.h"

namespace kvtier {

class WorldSteps {
 public:
  // Makes steps. Does not own the device, on which the page is pinned.
  WorldSteps(Device* device, std::shared_ptr<const SignalPage> page)
      : device_(device), page_(std::move(page)) {}

  void Begin() { device_->Raise(word(kBegunWord), ++begun_); }
  // Ends the step: everything submitted since Begin() belongs to it.
  absl::Status End() {
    return device_->Signal(Lane::kCompute, word(kRetiredWord), begun_).status();
  }
  uint64_t begun() const { return begun_; }
  uint64_t retired() const { return word(kRetiredWord)->load(); }

  // Returns the mark with which the next copy to the worker ends.
  LaneRunner::Mark NextOnboard() {
    return {.word = word(kOnboardedWord), .value = ++onboards_, .page = page_};
  }
  // Makes compute wait for all onboards.
  absl::Status AwaitOnboards() {
    if (awaited_ == onboards_) return absl::OkStatus();
    awaited_ = onboards_;
    return device_->Await(Lane::kCompute, word(kOnboardedWord), awaited_).status();
  }
  // Returns a word of the signal page. Words from kFreeWords on are free for the worker's use.
  SignalWord* word(size_t index) const { return page_->word(index); }
  static constexpr size_t kFreeWords = 9;

 private:
  static constexpr auto kBegunWord = static_cast<size_t>(StepWord::kBegun);
  static constexpr auto kRetiredWord = static_cast<size_t>(StepWord::kRetired);
  static constexpr size_t kOnboardedWord = 8;  // No StepWord has this index.

  Device* const device_;
  const std::shared_ptr<const SignalPage> page_;
  uint64_t begun_ = 0;
  uint64_t onboards_ = 0;
  uint64_t awaited_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_TESTS_TIER_GPU_WORLD_STEPS_H_
