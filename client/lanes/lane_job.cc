#include "client/lanes/lane_job.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace kvtier {

LaneJob::LaneJob(std::optional<ProgressWord> progress, uint32_t layers)
    : progress_(std::move(progress)), layers_(layers) {}

bool LaneJob::done() const {
  const absl::MutexLock lock(&mu_);
  return status_.has_value();
}

bool LaneJob::Wait(absl::Duration timeout) const {
  const absl::MutexLock lock(&mu_);
  const auto ended = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return status_.has_value(); };
  return mu_.AwaitWithTimeout(absl::Condition(&ended), timeout);
}

absl::Status LaneJob::status() const {
  const absl::MutexLock lock(&mu_);
  KVT_CHECK(status_.has_value());
  return *status_;
}

size_t LaneJob::blocks() const {
  const absl::MutexLock lock(&mu_);
  KVT_CHECK(status_.has_value());
  return blocks_;
}

std::optional<size_t> LaneJob::coming() const {
  const absl::MutexLock lock(&mu_);
  return coming_;
}

uint32_t LaneJob::Told() const {
  if (!progress_) return 0;
  // Pairs with the lane's write after the layer.
  const uint64_t told = progress_->word->load(std::memory_order_acquire);
  return static_cast<uint32_t>(std::min<uint64_t>(told - progress_->base, layers_));
}

uint32_t LaneJob::layers_ready() const {
  // Read before the lock: if the word was raised for another reason, the end is then already known.
  const uint32_t told = Told();
  const absl::MutexLock lock(&mu_);
  return status_ ? layers_at_end_ : told;
}

uint32_t LaneJob::layers_submitted() const {
  const absl::MutexLock lock(&mu_);
  return submitted_;
}

bool LaneJob::WaitSubmitted(uint32_t layers, absl::Duration timeout) const {
  const absl::MutexLock lock(&mu_);
  const auto there = [this, layers]()
                         ABSL_SHARED_LOCKS_REQUIRED(mu_) { return submitted_ >= layers; };
  return mu_.AwaitWithTimeout(absl::Condition(&there), timeout);
}

LayerMark LaneJob::mark(uint32_t layers) const {
  KVT_CHECK(progress_ && layers <= layers_);
  return {.word = progress_->word, .value = progress_->base + layers};
}

void LaneJob::Begin(size_t coming) {
  const absl::MutexLock lock(&mu_);
  coming_ = coming;
}

void LaneJob::Submitted(uint32_t layers) {
  const absl::MutexLock lock(&mu_);
  submitted_ = std::max(submitted_, layers);
}

void LaneJob::End(const absl::Status& status, size_t blocks) {
  const absl::MutexLock lock(&mu_);
  KVT_CHECK(!status_);
  status_ = status;
  blocks_ = status.ok() ? blocks : 0;
  layers_at_end_ = Told();
  // The host raises the remaining marks next, without a call to the device.
  if (progress_) submitted_ = layers_;
  if (!coming_) coming_ = 0;
}

}  // namespace kvtier
