#include "tier_gpu/worker_hold.h"

#include <utility>

#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<GpuHold> GpuHold::Of(std::shared_ptr<const GpuWorker> worker, SlotRef slot) {
  KVT_RETURN_IF_ERROR(worker->table->Hold(worker->number, slot));
  GpuHold hold;
  hold.worker_ = std::move(worker);
  hold.slot_ = slot;
  return hold;
}

GpuHold& GpuHold::operator=(GpuHold&& other) noexcept {
  if (this == &other) return *this;
  Release();
  worker_ = std::move(other.worker_);
  slot_ = other.slot_;
  return *this;
}

void GpuHold::Release() {
  const std::shared_ptr<const GpuWorker> worker = std::move(worker_);
  worker_ = nullptr;
  if (worker == nullptr || worker->hung_up) return;
  // Observes the words first: steps that began since the last Observe() may read the slot, too.
  worker->words->Observe();
  KVT_CHECK(worker->table->Release(worker->number, slot_).ok());
}

BegunSteps::BegunSteps(std::shared_ptr<const GpuWorker> worker) : worker_(std::move(worker)) {
  if (worker_ != nullptr) last_ = worker_->table->begun(worker_->number);
}

bool BegunSteps::ended() const {
  return worker_ == nullptr || worker_->gone || worker_->table->retired(worker_->number) >= last_;
}

}  // namespace kvtier
