// EmulatedLane is one timeline of an emulated device: operations in order, each with
// the moments at which it does something. It knows no other lane; EmulatedDevice runs
// the lanes' events in the order of their times.
#ifndef KVTIER_TIER_GPU_DEVICE_EMULATED_LANE_H_
#define KVTIER_TIER_GPU_DEVICE_EMULATED_LANE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tier_gpu/device/access_checker.h"
#include "tier_gpu/device/device.h"

namespace kvtier {

// What an operation does at one moment of its run.
struct EmulatedStep {
  double at = 0;  // 0..1.
  std::function<void()> act;
};

struct EmulatedOperation {
  absl::Time submitted;
  absl::Time began;                 // Its turn; known when `begin` is called.
  absl::Duration run;               // Of its turn, if it waits for no word.
  std::vector<EmulatedStep> steps;  // By rising `at`.
  // An operation that waits: it ends when this is true, whatever `run` is.
  std::function<bool()> ready;
  // When its turn comes, and it may still be changed; may be null.
  std::function<void(EmulatedOperation*)> begin;
  std::function<void()> end;  // May be null.
  absl::Status status;        // How it will end.
};

class EmulatedLane {
 public:
  explicit EmulatedLane(Lane lane) : lane_(lane) {}

  Lane lane() const { return lane_; }
  bool full() const { return operations_.size() + ended_.size() >= kMaxLaneDepth; }
  bool idle() const { return operations_.empty(); }
  // Something runs or could; not idle, nor behind an operation that waits, nor stalled.
  bool busy() const { return !operations_.empty() && !stalled_ && !operations_.front().ready; }
  // REQUIRES: not full.
  Ticket Add(EmulatedOperation operation);

  // When something happens next, if nothing is added; `now` for a word that is ready.
  absl::Time NextEvent(absl::Time now) const;
  // Does it. REQUIRES: it is not in the infinite future.
  void RunEvent(absl::Time now);
  // Hands out what has ended; false: nothing has.
  bool TakeEnded(Completion* completion);
  // Operations that failed; and of those, the ones that were handed out.
  uint64_t failures() const { return failures_; }
  uint64_t reported_failures() const { return reported_failures_; }

  void Stall() { stalled_ = true; }
  // False: it was not stalled.
  bool Resume(absl::Time now);
  // Everything that has not ended ends with `status` now. Returns what is left of each
  // operation: the steps that it did not do, and `begin` if its turn had not come.
  std::vector<EmulatedOperation> Abandon(absl::Time now, const absl::Status& status);

 private:
  void Begin(absl::Time when);
  void End(absl::Time when);

  const Lane lane_;
  uint64_t submitted_ = 0;
  uint64_t done_ = 0;
  uint64_t failures_ = 0;
  uint64_t reported_failures_ = 0;
  std::deque<EmulatedOperation> operations_;
  std::deque<Completion> ended_;
  bool stalled_ = false;
  bool begun_ = false;  // The front one.
  size_t next_step_ = 0;
  absl::Time free_at_ = absl::InfinitePast();  // The end of the one before.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_EMULATED_LANE_H_
