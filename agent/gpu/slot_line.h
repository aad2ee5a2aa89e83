// SlotLine is the line of calls that wait for slots of one GPU pool to bring a swapped sequence
// back. Only the first in line gets slots: a higher priority is ahead, and of equal priorities the
// sequence that was swapped out earlier. Slots are gathered until they are enough for the call that
// is then first, so no call is served before those ahead of it, and no slots are taken in vain.
//
// Blocks are evicted to make room, as for SlotGrants. Other calls may take free slots meanwhile.
//
// Executor thread only.
#ifndef KVTIER_AGENT_GPU_SLOT_LINE_H_
#define KVTIER_AGENT_GPU_SLOT_LINE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/gpu/gpu_evict.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/waits.h"
#include "tier_gpu/gpu_pool.h"

namespace kvtier {

class SlotLine {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    Executor* executor = nullptr;
    TaskScope* scope = nullptr;
    Waits* waits = nullptr;
    GpuEvictor* evictor = nullptr;
  };
  struct Place {
    int32_t priority = 0;
    uint64_t age = 0;  // The lower, the older; no two are equal.
  };
  explicit SlotLine(const Parts& parts) : parts_(parts) {}

  // Takes `count` slots, once the call is first in line and so many are there. Errors:
  // kResourceExhausted, that was not so by `deadline`. REQUIRES: `count` is positive.
  Task<absl::StatusOr<std::vector<GpuSlot>>> Take(Place place, size_t count, absl::Time deadline);
  size_t size() const { return line_.size(); }
  size_t gathered() const { return gathered_.size(); }  // Slots.

 private:
  struct Waiter {
    explicit Waiter(Executor* executor, size_t wanted) : count(wanted), ready(executor) {}
    const size_t count;
    std::vector<GpuSlot> slots;
    Event ready;
  };
  using Order = std::pair<int64_t, uint64_t>;  // Priority, negated; age. The least is first.
  // Gathers slots for the first in line, and hands them over when they are enough.
  void Serve();
  // Serves the line until it is empty.
  Task<void> ServeAll();

  const Parts parts_;
  std::map<Order, std::shared_ptr<Waiter>> line_;
  std::vector<GpuSlot> gathered_;  // Slots gathered for the first in line.
  bool is_served_ = false;         // ServeAll() runs.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_SLOT_LINE_H_
