// EmulatedLane is one timeline of an emulated device: operations in order, each with the moments at
// which it does something. It knows no other lane; EmulatedDevice runs the events of all lanes in
// the order of their times.
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

// Action of an operation at one moment of its run.
struct EmulatedStep {
  double at = 0;  // Moment in the run, 0..1.
  std::function<void()> act;
};

struct EmulatedOperation {
  absl::Time submitted;
  absl::Time began;                 // Start of its turn; set when `begin` is called.
  absl::Duration run;               // Length of its turn, unless it waits for a word.
  std::vector<EmulatedStep> steps;  // Steps by rising `at`.
  // Condition of an operation that waits: the operation ends when it returns true, whatever `run`
  // is.
  std::function<bool()> ready;
  // Function that is called when its turn comes, and may still change the operation; may be null.
  std::function<void(EmulatedOperation*)> begin;
  std::function<void()> end;  // Function that is called at its end; may be null.
  absl::Status status;        // Status with which it will end.
};

class EmulatedLane {
 public:
  explicit EmulatedLane(Lane lane) : lane_(lane) {}

  Lane lane() const { return lane_; }
  bool full() const { return operations_.size() + ended_.size() >= kMaxLaneDepth; }
  bool idle() const { return operations_.empty(); }
  // Returns whether something runs or could run: the lane is not idle, not stalled, and its first
  // operation does not wait.
  bool busy() const { return !operations_.empty() && !stalled_ && !operations_.front().ready; }
  // Appends an operation. REQUIRES: not full.
  Ticket Add(EmulatedOperation operation);

  // Returns when the next event happens if nothing is added; `now` for a wait whose word is ready.
  absl::Time NextEvent(absl::Time now) const;
  // Runs the next event. REQUIRES: NextEvent() is not in the infinite future.
  void RunEvent(absl::Time now);
  // Hands out one operation that has ended; returns false if none has.
  bool TakeEnded(Completion* completion);
  // Return how many operations failed, and how many of those were handed out.
  uint64_t failures() const { return failures_; }
  uint64_t reported_failures() const { return reported_failures_; }

  void Stall() { stalled_ = true; }
  // Ends a stall. Returns false if the lane was not stalled.
  bool Resume(absl::Time now);
  // Ends everything that has not ended, with `status`, now. Returns what is left of each operation:
  // the steps that it did not run, and `begin` if its turn had not come.
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
  bool begun_ = false;  // Whether the first operation has begun.
  size_t next_step_ = 0;
  absl::Time free_at_ = absl::InfinitePast();  // End of the previous operation.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_EMULATED_LANE_H_
