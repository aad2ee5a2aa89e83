// CudaLane is one lane of a GPU: a stream, and the operations in it. The stream writes marks,
// rising numbers, to a word in host memory: one at the end of each operation, and more within a
// long one. So the ends of operations are seen without a CUDA call.
//
// A stream that queues about 1,000 entries makes its caller wait. So a lane keeps commands here and
// feeds them to the stream while there is room. The marks tell how many entries the stream has
// completed.
#ifndef KVTIER_TIER_GPU_DEVICE_CUDA_LANE_H_
#define KVTIER_TIER_GPU_DEVICE_CUDA_LANE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tier_gpu/device/cuda_driver.h"
#include "tier_gpu/device/device.h"

namespace kvtier {

struct CudaCommand {
  // Stream of a command. The next command of the lane's own stream waits for those that were put
  // into the stream ahead.
  enum class Where : uint8_t { kLane, kAhead };
  Where where{};
  // Puts at most `entries` entries into a stream; `entries` is at most kMaxCommandEntries. Errors:
  // CUDA's.
  std::function<absl::Status()> put;
  size_t entries = 1;
};

inline constexpr size_t kMaxCommandEntries = 128;
// Maximum number of entries in a lane's streams that are not known to have ended, besides a mark.
inline constexpr size_t kMaxStreamEntries = 768;
// Number of entries after which a mark is written, once the lane has waited for the stream ahead.
inline constexpr size_t kMarkedEntries = 128;
// Maximum number of entries in a row that a lane's commands put ahead. With this bound, a lane that
// has no room for its next command has a mark in its stream, and the end of that mark makes room.
inline constexpr size_t kMaxEntriesAhead = kMaxStreamEntries - kMarkedEntries - kMaxCommandEntries;

// CudaLane is called by one thread at a time. The caller enters the context before methods that
// call CUDA: Open(), Feed(), Observe(), Quiet(), Failure(), Abandon() and the destructor.
class CudaLane {
 public:
  struct Options {
    Lane lane{};
    // Stream of somebody else, who keeps it; nullopt: the lane creates its own.
    std::optional<cudaStream_t> stream;
    // Stream of our own that is queried for CUDA errors in place of somebody else's `stream`: a
    // query of theirs could disturb the capture of a graph.
    cudaStream_t asked = nullptr;
    int priority = 0;  // CUDA's priority; it affects kernels only, copies have none.
    // Word for marks, at its host and GPU address. No other code writes it, and it is 0 at first.
    SignalWord* word = nullptr;
    CUdeviceptr word_on_device = 0;
  };
  // Opens the lane. Errors: CudaStatus()'s.
  static absl::StatusOr<std::unique_ptr<CudaLane>> Open(const CudaDriver& driver,
                                                        const Options& options);
  // REQUIRES: Quiet() is true.
  ~CudaLane();
  CudaLane(const CudaLane&) = delete;
  CudaLane& operator=(const CudaLane&) = delete;

  cudaStream_t stream() const { return stream_; }
  // Returns the place, below kMaxLaneDepth, of room set aside for the next operation. At most one
  // operation whose end was not yet taken has this place.
  size_t next_place() const { return submitted_ % kMaxLaneDepth; }
  bool full() const { return operations_.size() + ended_.size() >= kMaxLaneDepth; }
  bool idle() const { return operations_.empty(); }
  // Returns what Device::HandedOver() does for a ticket with this sequence.
  bool HandedOver(uint64_t sequence) const { return sequence <= done_ + fed_operations_; }

  enum class Kind : uint8_t {
    kWord,  // Duration measured by the host, when it observes the end.
    // Writes a word like kWord, but fails if an operation before it had failed and its end was not
    // yet taken when this one was added.
    kSignal,
    kCopy,  // Duration measured by CUDA events. REQUIRES: the lane created the stream.
  };
  // Sets the stream into which commands of kCopy put what runs ahead of the lane
  // (CudaCommand::Where::kAhead), and the event by which the lane waits for that stream. Neither is
  // owned.
  void Join(cudaStream_t ahead, cudaEvent_t joined) {
    ahead_ = ahead;
    joined_ = joined;
  }
  // Adds an operation. REQUIRES: not full; kinds other than kCopy have commands.
  Ticket Add(Kind kind, std::vector<CudaCommand> commands, absl::Time now);
  // Returns whether Observe() or Feed() has something to do.
  bool HasWork() const;
  // Puts commands into the stream while there is room. A copy one of whose calls fails ends with
  // kUnavailable and CUDA's text, once nothing of it runs any more; the lane goes on. Errors mean
  // that the device is lost: an error that CUDA returns for all calls (Failure()), or the error of
  // a call on which the order of the lane depends.
  absl::Status Feed();
  // Ends the operations that have ended according to the word.
  void Observe(absl::Time now);
  bool TakeEnded(Completion* completion);
  // Returns the time since the last change in the lane: an operation or mark ended, or an idle lane
  // got an operation. Zero when the lane is idle.
  absl::Duration TimeSinceChange(absl::Time now) const;
  // Returns false if something of ours still runs in the stream, or CUDA does not tell while an
  // engine captures a graph. Returns true also if a CUDA error ended its work. Somebody else's
  // stream is judged by its marks, as asking it could disturb a capture.
  bool Quiet() const;
  // Returns the error that ended all work of the process on the GPU, in any stream; CUDA repeats it
  // for every call. OK: there is none, or CUDA does not tell.
  absl::Status Failure() const;
  // Ends everything that has not ended, with `status`, now.
  void Abandon(absl::Time now, const absl::Status& status);

 private:
  struct Operation {
    Kind kind{};
    absl::Time submitted;
    std::vector<CudaCommand> commands;  // Emptied when all are in the stream.
    size_t fed = 0;
    uint64_t known_failures = 0;  // Value of taken_failures_ when it was added.
    absl::Status status;          // Status with which it will end.
    // Mark at its end; known when all commands are in the stream.
    uint64_t end_mark = ~uint64_t{0};
  };
  struct Mark {
    uint64_t number = 0;
    size_t entries = 0;  // Number of entries since the previous mark.
  };
  struct Span {
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
  };
  CudaLane(const CudaDriver& driver, const Options& options)
      : driver_(driver), options_(options), stream_(options.stream.value_or(nullptr)) {}
  absl::Status CreateStream();
  // Returns whether the stream has room for the next command. REQUIRES: there is one.
  bool HasRoom() const;
  // Puts the next command of the operation into its stream. Errors: as Feed().
  absl::Status Put(Operation* operation);
  // Drops the remaining commands of the operation, which will end with `status`. Errors: as Feed().
  absl::Status Fail(Operation* operation, const absl::Status& status);
  absl::Status AddMark();
  void End(absl::Time now, absl::Status status);
  absl::Duration TimeOf(const Operation& operation, absl::Time now) const;

  const CudaDriver driver_;
  const Options options_;
  cudaStream_t stream_;
  cudaStream_t ahead_ = nullptr;
  cudaEvent_t joined_ = nullptr;
  std::array<Span, kMaxLaneDepth> spans_{};  // Spans by place; used only with a stream of its own.
  uint64_t submitted_ = 0;
  uint64_t done_ = 0;
  std::deque<Operation> operations_;  // Operations that have not ended.
  size_t fed_operations_ = 0;         // Number of these that are wholly in the stream.
  size_t entries_ = 0;      // Number of entries in the stream that are not known to have ended.
  size_t unmarked_ = 0;     // Number of these after the last mark.
  std::deque<Mark> marks_;  // Marks in the stream.
  uint64_t last_mark_ = 0;
  uint64_t seen_mark_ = 0;
  std::deque<Completion> ended_;
  uint64_t failures_ = 0;        // Number of operations that failed.
  uint64_t taken_failures_ = 0;  // Number of failures whose ends were taken.
  // Time of the last end, or of an addition to an idle lane.
  absl::Time last_change_ = absl::InfinitePast();
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_LANE_H_
