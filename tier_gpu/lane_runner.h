// LaneRunner copies on behalf of flows. It submits their batches to the device in the order that
// LaneSchedule gives, only a few at a time so that an urgent batch waits for little, polls the
// device, and resumes the flows that wait. It calls the device, and thereby a driver that may take
// any time, on an executor of its own.
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
  // Word of the mark. As Batch::after, the lane waits until the word reaches `value`; as
  // Batch::before, the lane sets the word to `value`. Null: there is no mark.
  struct Mark {
    SignalWord* word = nullptr;
    uint64_t value = 0;
    // Page of the word; keeps it alive while the device uses it.
    std::shared_ptr<const SignalPage> page;
    // Function that is called once, on `lanes`, when the write of a `before` mark has been handed
    // over (Device::HandedOver()). It is not called if the batch is not submitted or fails earlier.
    // May be null.
    std::function<void()> handed_over{};
  };
  struct Batch {
    Mark after;  // Awaited before the first byte is copied.
    // Segments or blocks, not both. With neither, the batch consists of its marks. `blocks` has the
    // direction and region of the copy.
    std::vector<CopySegment> segments;  // Segments, at most kMaxCopySegments.
    std::optional<BlockBatch> blocks;
    // Owner of the memory to which `blocks` points, kept until the batch has ended.
    std::shared_ptr<const void> keep;
    Mark before;  // Mark that is written after the last byte is copied.
  };
  struct Copy {
    CopyDirection direction{};
    CopyUrgency urgency = CopyUrgency::kForeground;
    DeviceRegion* region = nullptr;
    std::vector<Batch> batches;  // Run in this order.
  };

  // Owns none of these. Flows run on `flows`. The device is called on `lanes`, which may be the
  // same executor. Other code may use the device's compute lane on `lanes`; the runner polls that
  // lane's ended operations and drops them.
  LaneRunner(Device* device, Executor* flows, Executor* lanes)
      : device_(device), flows_(flows), lanes_(lanes) {}
  // REQUIRES: nothing of this runner is queued or running on `lanes`.
  ~LaneRunner() = default;
  LaneRunner(const LaneRunner&) = delete;
  LaneRunner& operator=(const LaneRunner&) = delete;

  // Copies, and ends when every byte has arrived. Batches of one direction and urgency run in the
  // order of the calls. At most kMaxQueuedBatches of them are queued in the schedule; the rest wait
  // in the runner, however long the copy is. (Each waiting copy holds device slots and host memory,
  // which bounds the number of copies.) There is no deadline: a caller with one also waits for an
  // event of its own.
  // REQUIRES: the host memory, and the content of the region that is copied, stay until the copy
  // has ended. Destroying the task does not end the copy. Executor `flows` only.
  // Errors: the device's. IsAbandoned() if any batch was abandoned: then host memory and region
  // must stay as long as the process lives. On an error the content of the destination is
  // undefined, and batches that were not yet submitted are dropped: no mark after the failure is
  // written.
  Task<absl::Status> Run(Copy copy);

  // Polls the device, for the compute lane, which advances only while somebody polls. Running
  // copies need no call: the runner polls while they run. Executor `lanes` only.
  void Poll() { Pump(); }

  // Runs `change` on `lanes`, between two polls of the device, and ends when it has returned. A
  // region is changed in this way while copies of its other parts run. Destroying the task does not
  // stop it. Executor `flows` only.
  Task<void> RunBetweenPolls(absl::AnyInvocable<void()> change);

 private:
  // Progress of one Copy to its end; used on `flows`, except for `failure`.
  struct Ending {
    Ending(Executor* executor, size_t batches) : left(batches), done(executor) {}
    size_t left;
    absl::Status status;  // First error, or the error of an abandoned batch.
    Event done;
    absl::Status failure;  // First error; used on `lanes`.
  };
  struct Waiting {
    Batch batch;
    DeviceRegion* region;
    std::shared_ptr<Ending> ending;
  };
  // Copies of one direction and urgency; used on `flows`.
  struct Line {
    struct Queued {
      Copy copy;
      size_t handed_over = 0;  // Number of its batches that were handed over.
      std::shared_ptr<Ending> ending;
    };
    std::deque<Queued> copies;
    size_t unfinished = 0;  // Number of batches that were handed over and have not ended.
  };
  struct Running {
    ScheduledBatch scheduled;
    Ticket last;     // Last operation of the batch.
    Waiting waited;  // The batch; it keeps the pages of its marks alive.
    absl::Status status;
  };
  Line& line(CopyDirection direction, CopyUrgency urgency) {
    return lines_[static_cast<size_t>(direction)][static_cast<size_t>(urgency)];
  }
  // Hands batches over to `lanes`, as many as there is room for.
  void HandOver(CopyDirection direction, CopyUrgency urgency);
  void Enqueue(const ScheduledBatch& what, std::vector<Waiting> batches);
  // Finishes the batches that have ended, submits as many as the device has room for, and sets a
  // timer for its next run.
  void Pump();
  // Submits one batch. Returns false if nothing is to be submitted in that direction now.
  bool SubmitNext(CopyDirection direction);
  // Submits the operations of a batch. Sets `*last` to the last operation submitted, also on an
  // error; its sequence is 0 if there was none.
  absl::Status Submit(CopyDirection direction, const Waiting& waiting, Ticket* last);
  void Ended(const Completion& completion);
  void TellHandedOver(Running& running);
  void Finish(const ScheduledBatch& scheduled, const std::shared_ptr<Ending>& ending,
              const absl::Status& status);
  void PumpAgain();

  Device* const device_;
  Executor* const flows_;
  Executor* const lanes_;
  // Used on `lanes`:
  LaneSchedule schedule_;
  uint64_t next_number_ = 0;
  // Waiting batches by their number in the schedule.
  absl::flat_hash_map<uint64_t, Waiting> waiting_;
  // Running batches in the order of the lanes.
  std::array<std::deque<Running>, kCopyDirections> running_;
  std::optional<TimerId> timer_;
  // Used on `flows`; by direction and urgency.
  std::array<std::array<Line, kCopyUrgencies>, kCopyDirections> lines_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_LANE_RUNNER_H_
