// GpuHold is a worker's hold on one slot of a GPU pool, and BegunSteps the steps that a worker had
// begun at one moment: by them a slot is used again only behind the steps that may touch it.
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

// A session's place in one pool.
struct GpuWorker {
  SlotTable* table = nullptr;
  StepWords* words = nullptr;
  PoolWorker number{};
  bool hung_up = false;  // Its holds end with its place, all at once.
  bool gone = false;     // The place is another's by now, or nobody's.
};

// Move-only; the destructor ends the hold as of the worker's latest step.
class GpuHold {
 public:
  GpuHold() = default;  // Holds nothing.
  // Errors: kAborted, the slot was reused since.
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

// They may write what the worker was given until then, also in host memory, where no slot table
// holds it for them.
class BegunSteps {
 public:
  BegunSteps() = default;  // None.
  // The steps of the worker so far; none without a worker.
  explicit BegunSteps(std::shared_ptr<const GpuWorker> worker);
  // Whether all have ended, as far as the words were observed, or nothing of the worker runs any
  // more.
  bool ended() const;

 private:
  std::shared_ptr<const GpuWorker> worker_;
  uint64_t last_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_WORKER_HOLD_H_
