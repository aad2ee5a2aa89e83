// GpuHold is a worker's hold on one slot of a GPU pool. BegunSteps are the steps that a worker had
// begun at one moment. With them, a slot is reused only after the steps that may touch it.
//
// Executor thread only.
#ifndef KVTIER_TIER_GPU_WORKER_HOLD_H_
#define KVTIER_TIER_GPU_WORKER_HOLD_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "tier_gpu/step_words.h"
#include "tier_gpu/tables/slot_table.h"

namespace kvtier {

// Place of a session in one pool.
struct GpuWorker {
  SlotTable* table = nullptr;
  StepWords* words = nullptr;
  PoolWorker number{};
  // Whether the worker hung up. Its holds then end together, when StepWords::Detach() frees its
  // number.
  bool hung_up = false;
  bool gone = false;  // Whether StepWords::Detach() freed its number for other workers.
};

// GpuHold holds a slot for a worker. Move-only; the destructor ends the hold as of the worker's
// latest step.
class GpuHold {
 public:
  GpuHold() = default;  // Holds nothing.
  // Takes a hold. Errors: kAborted, the slot was reused since.
  static absl::StatusOr<GpuHold> Of(std::shared_ptr<const GpuWorker> worker, SlotRef slot);
  GpuHold(GpuHold&&) noexcept = default;
  GpuHold& operator=(GpuHold&& other) noexcept;
  ~GpuHold() { Release(); }
  explicit operator bool() const { return worker_ != nullptr; }
  void Release();

 private:
  std::shared_ptr<const GpuWorker> worker_;
  SlotRef slot_;
};

// BegunSteps are the steps that a worker had begun when the object was made. They may write to all
// memory that the worker was given by then, also to host memory, which no slot table protects.
class BegunSteps {
 public:
  BegunSteps() = default;  // Has no steps.
  // Takes the steps that the worker has begun so far; none if `worker` is null.
  explicit BegunSteps(std::shared_ptr<const GpuWorker> worker);
  // Returns whether all of the steps have ended, as of the last StepWords::Observe(), or the worker
  // is gone.
  bool ended() const;

 private:
  std::shared_ptr<const GpuWorker> worker_;
  uint64_t last_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_WORKER_HOLD_H_
