// LaneRunner is how flows copy: it submits their batches to the device as LaneSchedule
// says, a few at a time so that what is urgent waits for little, polls, and resumes who
// waits. Calls into the device, which may take as long as a driver likes, are made on an
// executor of their own.
#ifndef KVTIER_TIER_GPU_LANE_RUNNER_H_
#define KVTIER_TIER_GPU_LANE_RUNNER_H_

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/task.h"
#include "tier_gpu/device/block_batch.h"
#include "tier_gpu/device/device.h"
#include "tier_gpu/plan/lane_schedule.h"

namespace kvtier {

class LaneRunner {
 public:
  // The lane waits for `word` to be `value`, or writes it. A null word: neither.
  struct Mark {
    SignalWord* word = nullptr;
    uint64_t value = 0;
    std::shared_ptr<const SignalPage> page;  // The word's page, kept while the device uses it.
    // In `before`: called once on `lanes` when the write is handed over (Device::HandedOver());
    // never, if the batch is not submitted or fails before. May be null.
    std::function<void()> handed_over{};
  };
  struct Batch {
    Mark after;  // Ahead of the first byte.
    // One of the two; neither: the marks only. The batch of blocks is of the copy's
    // direction and region.
    std::vector<CopySegment> segments;  // kMaxCopySegments at most.
    std::optional<BlockBatch> blocks;
    std::shared_ptr<const void> keep;  // Owner of what `blocks` points to, until it has ended.
    Mark before;                       // Behind the last byte.
  };
  struct Copy {
    CopyDirection direction{};
    CopyUrgency urgency = CopyUrgency::kForeground;
    DeviceRegion* region = nullptr;
    std::vector<Batch> batches;  // Run in this order.
  };

  // None is owned. Flows run on `flows`; the device is used on `lanes` (they may be the
  // same), where others may use its compute lane: what ends there is polled and dropped.
  LaneRunner(Device* device, Executor* flows, Executor* lanes)
      : device_(device), flows_(flows), lanes_(lanes) {}
  // REQUIRES: `lanes` runs nothing of this any more.
  ~LaneRunner() = default;
  LaneRunner(const LaneRunner&) = delete;
  LaneRunner& operator=(const LaneRunner&) = delete;

  // Ends when every byte has arrived. Batches of one direction and urgency run in the order
  // of the calls; what is more than kMaxQueuedBatches of them waits its turn, however long
  // the copy. (What may wait is bounded by what it keeps: device slots and host memory.) No
  // deadline: who has one waits for an event beside it. REQUIRES: the host
  // memory, and what the region holds there, stay until the copy has ended, and destroying
  // the task does not end it. Errors: the device's; IsAbandoned(), if any batch is: then both
  // stay, for as long as the process lives. On an error the destination is undefined, and
  // what of the copy was not submitted is not: no mark behind the failure is written.
  // Executor `flows` only.
  Task<absl::Status> Run(Copy copy);

  // Sees what has ended. Copies are seen without it; the compute lane goes on only while
  // somebody polls. Executor `lanes` only.
  void Poll() { Pump(); }

  // Runs `change` where the device is used, between two looks at it, and ends when it has
  // returned: a region is changed so while copies of other parts of it run. Destroying the
  // task does not stop it. Executor `flows` only.
  Task<void> Between(absl::AnyInvocable<void()> change);

 private:
  // The end of one Copy; touched on `flows`, but for `failure`.
  struct Ending {
    Ending(Executor* executor, size_t batches) : left(batches), done(executor) {}
    size_t left;
    absl::Status status;  // The first error, or that the copy was abandoned.
    Event done;
    absl::Status failure;  // The same, as `lanes` knows it.
  };
  struct Waiting {
    Batch batch;
    DeviceRegion* region;
    std::shared_ptr<Ending> ending;
  };
  // Copies of one direction and urgency; touched on `flows`.
  struct Line {
    struct Queued {
      Copy copy;
      size_t handed_over = 0;  // Number of its batches.
      std::shared_ptr<Ending> ending;
    };
    std::deque<Queued> copies;
    size_t unfinished = 0;  // Batches that were handed over and have not ended.
  };
  struct Running {
    ScheduledBatch scheduled;
    Ticket last;     // The last of the batch's operations.
    Waiting waited;  // Keeps the pages of its marks.
    absl::Status status;
  };
  Line& line(CopyDirection direction, CopyUrgency urgency) {
    return lines_[static_cast<size_t>(direction)][static_cast<size_t>(urgency)];
  }
  // Hands over to `lanes` what there is room for.
  void HandOver(CopyDirection direction, CopyUrgency urgency);
  void Enqueue(const ScheduledBatch& what, std::vector<Waiting> batches);
  // Submits what there is room for, ends what has ended, and comes again.
  void Pump();
  // False: nothing is to be submitted in that direction now.
  bool SubmitNext(CopyDirection direction);
  // Submits the operations of a batch. Sets `*last` to the last one that was submitted, also on an
  // error; its sequence is 0 if there is none.
  absl::Status Submit(CopyDirection direction, const Waiting& waiting, Ticket* last);
  void Ended(const Completion& completion);
  void TellHandedOver(Running& running);
  void Finish(const ScheduledBatch& scheduled, const std::shared_ptr<Ending>& ending,
              const absl::Status& status);
  void PumpAgain();

  Device* const device_;
  Executor* const flows_;
  Executor* const lanes_;
  // On `lanes`:
  LaneSchedule schedule_;
  uint64_t next_number_ = 0;
  absl::flat_hash_map<uint64_t, Waiting> waiting_;            // By number.
  std::array<std::deque<Running>, kCopyDirections> running_;  // In the order of the lanes.
  std::optional<TimerId> timer_;
  // On `flows`, by direction and urgency.
  std::array<std::array<Line, kCopyUrgencies>, kCopyDirections> lines_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_LANE_RUNNER_H_
