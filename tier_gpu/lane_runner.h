// LaneRunner is how flows copy: it keeps what is asked for in a queue of each direction,
// submits it to the device in small portions, so that what is urgent waits for little
// (kMaxLaneBatches), polls, and resumes who waits. Calls into the device, which may
// take as long as a driver likes, are made on an executor of their own.
#ifndef KVTIER_TIER_GPU_LANE_RUNNER_H_
#define KVTIER_TIER_GPU_LANE_RUNNER_H_

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/task.h"
#include "tier_gpu/device/device.h"

namespace kvtier {

// Batches of one direction that are inside the device at a time: one that runs, and one
// behind it that keeps the link busy. Of kMaxCopyBytes each, on PCIe 5.0 they are 150 us.
inline constexpr size_t kMaxLaneBatches = 2;
// Batches of one direction that wait outside.
inline constexpr size_t kMaxQueuedBatches = 4096;

class LaneRunner {
 public:
  enum class Urgency : uint8_t { kForeground, kBackground };
  // The lane waits for `word` to be `value`, or writes it. A null word: neither.
  struct Mark {
    SignalWord* word = nullptr;
    uint64_t value = 0;
    std::shared_ptr<const SignalPage> page;  // Whose word it is, kept while the device uses it.
  };
  struct Batch {
    Mark after;  // Ahead of the first byte.
    CopyPath path = CopyPath::kBatch;
    std::vector<CopySegment> segments;  // kMaxCopySegments at most; none: the marks only.
    Mark before;                        // Behind the last byte.
  };
  struct Copy {
    CopyDirection direction{};
    Urgency urgency = Urgency::kForeground;
    DeviceRegion* region = nullptr;
    std::vector<Batch> batches;  // Run in this order.
  };

  // None is owned. Flows run on `flows`; the device is used on `lanes`, by nobody else
  // (they may be the same).
  LaneRunner(Device* device, Executor* flows, Executor* lanes)
      : device_(device), flows_(flows), lanes_(lanes) {}
  // REQUIRES: `lanes` runs nothing of this any more.
  ~LaneRunner() = default;
  LaneRunner(const LaneRunner&) = delete;
  LaneRunner& operator=(const LaneRunner&) = delete;

  // Ends when every byte has arrived; all batches are queued at once. Those of one
  // direction and urgency run in the order of the calls; foreground is submitted before background.
  // REQUIRES: the host memory, and what the region holds there, stay until the task ends;
  // destroying it does not stop a copy. No deadline: who has one waits for an event beside it.
  // Errors: kResourceExhausted, kMaxQueuedBatches wait; the device's. On an error the
  // destination is undefined. Executor `flows` only.
  Task<absl::Status> Run(Copy copy);

 private:
  // Of one Copy; touched on `flows`.
  struct Ending {
    Ending(Executor* executor, size_t batches) : left(batches), done(executor) {}
    size_t left;
    absl::Status status;  // The first error.
    Event done;
  };
  struct Waiting {
    Batch batch;
    DeviceRegion* region;
    std::shared_ptr<Ending> ending;
  };
  struct Running {
    Ticket last;  // Of the batch's operations.
    Batch batch;  // For the pages of its marks.
    absl::Status status;
    std::shared_ptr<Ending> ending;
  };
  // Of one direction; touched on `lanes` only, like all but `queued_`.
  struct Queue {
    std::deque<Waiting> foreground;
    std::deque<Waiting> background;
    std::deque<Running> running;  // In the order of the lane.
  };
  void Enqueue(Copy copy, const std::shared_ptr<Ending>& ending);
  // Submits what there is room for, ends what has ended, and comes again.
  void Pump();
  void SubmitFrom(CopyDirection direction);
  // The operations of a batch. `*last` names the last that was submitted, also when a
  // later one was not; as it was: none.
  absl::Status Submit(CopyDirection direction, const Waiting& waiting, Ticket* last);
  void Ended(const Completion& completion);
  void Finish(const std::shared_ptr<Ending>& ending, CopyDirection direction,
              const absl::Status& status);
  void PumpAgain();

  Device* const device_;
  Executor* const flows_;
  Executor* const lanes_;
  std::array<Queue, kCopyDirections> queues_;
  std::optional<TimerId> timer_;
  std::array<size_t, kCopyDirections> queued_{};  // On `flows`: not ended yet.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_LANE_RUNNER_H_
