// GpuResizer brings the GPU pool to the size that an operator asks for, by whole handles.
// To grow takes as long as the driver takes. To shrink, it hands nothing beyond the new
// size out any more, drops the blocks there that nobody holds (a block that no lower tier has is
// lost, as by any eviction), waits for what workers hold and for their steps, and gives the memory
// back handle by handle from the end. Everything else goes on meanwhile.
//
// Executor thread only.
#ifndef KVTIER_AGENT_GPU_GPU_RESIZE_H_
#define KVTIER_AGENT_GPU_GPU_RESIZE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/gpu/gpu_evict.h"
#include "agent/gpu/gpu_workers.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/waits.h"
#include "tier_gpu/gpu_pool.h"

namespace kvtier {

class GpuResizer {
 public:
  // Parts are objects that the resizer uses and does not own.
  struct Parts {
    Executor* executor = nullptr;
    TaskScope* scope = nullptr;
    Waits* waits = nullptr;
    GpuEvictor* evictor = nullptr;
    GpuPool* pool = nullptr;
    GpuWorkers* workers = nullptr;
  };
  // Progress is the size that the pool has, the size that it is to have, and what the resize waits
  // for.
  struct Progress {
    uint64_t bytes = 0;         // Memory now.
    uint64_t target_bytes = 0;  // Equal to `bytes`: no resize is in progress.
    size_t slots_in_use = 0;    // Slots in use beyond the target, for which the resize waits.
    size_t workers = 0;         // Workers that hold some of them, or may touch them.
    absl::Status ended;  // Reason why the last resize did not reach its target; OK if it did.
  };
  explicit GpuResizer(const Parts& parts) : parts_(parts), target_(parts.pool->handles().size()) {}

  // Begins to bring the pool to `bytes`, rounded down to whole handles, in place of a resize that
  // is in progress. After kGpuResizeTimeout the resize ends, and the pool keeps the size that it
  // has then, and hands all of it out again. Errors: kInvalidArgument, less than a handle, or more
  // than the pool may have; kUnavailable, the agent is stopping.
  absl::Status Begin(uint64_t bytes);
  // Waits until no resize is in progress. Returns false if one still is at `deadline`.
  Task<bool> AwaitEnd(absl::Time deadline);
  // Ends the resize in progress soon, at the size reached so far, and lets no other begin.
  void Stop();
  Progress progress() const;
  uint64_t max_bytes() const { return parts_.pool->max_handles() * parts_.pool->handle_bytes(); }

 private:
  Task<void> Run();
  // Makes one step toward a smaller pool. Returns whether there is more to do at once.
  Task<bool> Shrink();
  std::string HeldUpText() const;

  const Parts parts_;
  size_t target_;  // Handles.
  absl::Time deadline_;
  absl::Status ended_;
  std::shared_ptr<Event> end_;  // End of the resize in progress; nullptr: there is none.
  bool stopping_ = false;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_GPU_RESIZE_H_
