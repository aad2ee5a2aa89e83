// CopyLane puts the batches of one direction in order: one runs, the others wait
// their turn, and a full lane refuses. It moves no bytes.
//
// Executor thread only. Invariant: of the turns taken and not ended, the oldest
// has begun and no other has.
#ifndef KVTIER_TIER_GPU_DEVICE_COPY_LANE_H_
#define KVTIER_TIER_GPU_DEVICE_COPY_LANE_H_

#include <cstddef>
#include <list>

#include "absl/status/statusor.h"
#include "core/event.h"
#include "core/executor.h"

namespace kvtier {

// Turns of one lane, the running one included. A batch is kMaxCopySegments at
// most, so this is what bounds the copies promised on one link.
inline constexpr size_t kMaxLaneTurns = 64;

class CopyLane {
 public:
  // Move-only; the destructor ends the turn, wherever it stands in the line.
  class Turn {
   public:
    Turn(Turn&& other) noexcept;
    Turn& operator=(Turn&& other) = delete;
    ~Turn();
    // co_await: ends when the turn has begun. REQUIRES: not moved from.
    Event::Waiter Begun() { return place_->WaitUntil(absl::InfiniteFuture()); }

   private:
    friend class CopyLane;
    Turn(CopyLane* lane, std::list<Event>::iterator place) : lane_(lane), place_(place) {}
    CopyLane* lane_;
    std::list<Event>::iterator place_;
  };

  explicit CopyLane(Executor* executor) : executor_(executor) {}
  // REQUIRES: no turn is left.
  ~CopyLane();
  CopyLane(const CopyLane&) = delete;
  CopyLane& operator=(const CopyLane&) = delete;

  // Goes to the end of the line. Errors: kResourceExhausted, kMaxLaneTurns wait.
  absl::StatusOr<Turn> Join();

 private:
  void End(std::list<Event>::iterator place);

  Executor* const executor_;  // Not owned.
  std::list<Event> turns_;    // Oldest first; an event is set when its turn begins.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_COPY_LANE_H_
