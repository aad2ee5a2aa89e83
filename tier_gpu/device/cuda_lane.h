// CudaLane is one lane of a GPU: a stream, and the operations in it. The stream writes
// marks, rising numbers, to a word in host memory: one at the end of each operation, and
// more in a long one. So what has ended is seen without a call of CUDA's.
//
// A stream that queues about 1,000 entries makes its caller wait. So what goes into the
// stream is kept here as commands, and fed to it as far as there is room; the marks tell
// how much is behind it.
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
  // What is put into another stream than the lane's is waited for by the next that is
  // put into the lane's.
  enum class Where : uint8_t { kLane, kAhead };
  Where where{};
  // Puts `entries` entries into a stream, at most; kMaxCommandEntries at most. Errors: what
  // CUDA said.
  std::function<absl::Status()> put;
  size_t entries = 1;
};

inline constexpr size_t kMaxCommandEntries = 128;
// Entries of a lane's streams that are not known to have ended, at most; and a mark.
inline constexpr size_t kMaxStreamEntries = 768;
// A mark comes behind so many, once the lane has waited for what is ahead.
inline constexpr size_t kMarkedEntries = 128;
// REQUIRES of a lane's commands: so many entries ahead in a row, at most. Then a lane that
// has no room for its next command has a mark in its stream, whose end makes room.
inline constexpr size_t kMaxEntriesAhead = kMaxStreamEntries - kMarkedEntries - kMaxCommandEntries;

// One thread at a time. The context is entered by the caller of what calls CUDA: Open(),
// Feed(), Observe(), Quiet(), Failure(), Abandon() and the destructor.
class CudaLane {
 public:
  struct Options {
    Lane lane{};
    // Of someone else, who keeps it; nullopt: one of its own.
    std::optional<cudaStream_t> stream;
    // With someone else's: one of ours that is asked for errors instead, for asking about theirs
    // could disturb the capture of a graph.
    cudaStream_t asked = nullptr;
    int priority = 0;  // CUDA's; of kernels only, copies have none.
    // Where marks are written, as the host and as the GPU see it. Of nobody else, 0 now.
    SignalWord* word = nullptr;
    CUdeviceptr word_on_device = 0;
  };
  // Errors: CudaStatus()'s.
  static absl::StatusOr<std::unique_ptr<CudaLane>> Open(const CudaDriver& driver,
                                                        const Options& options);
  // REQUIRES: Quiet().
  ~CudaLane();
  CudaLane(const CudaLane&) = delete;
  CudaLane& operator=(const CudaLane&) = delete;

  cudaStream_t stream() const { return stream_; }
  // Of all operations whose end was not taken yet, one has this number at most: room
  // that is set aside for the next operation, out of kMaxLaneDepth.
  size_t next_place() const { return submitted_ % kMaxLaneDepth; }
  bool full() const { return operations_.size() + ended_.size() >= kMaxLaneDepth; }
  bool idle() const { return operations_.empty(); }
  // As Device::HandedOver(), by the ticket's number.
  bool HandedOver(uint64_t sequence) const { return sequence <= done_ + fed_operations_; }

  enum class Kind : uint8_t {
    kWord,    // Its time is taken by the host, as it sees the ends.
    kSignal,  // A kWord that fails behind a failure whose end was not taken when it was added.
    kCopy,    // Its time is taken by events. REQUIRES: the stream is the lane's own.
  };
  // Where the commands of kCopy put what comes ahead of the lane (CudaCommand::Where::kAhead), and
  // an event of this lane's for it. Not owned.
  void Join(cudaStream_t ahead, cudaEvent_t joined) {
    ahead_ = ahead;
    joined_ = joined;
  }
  // REQUIRES: not full; other kinds than kCopy have commands.
  Ticket Add(Kind kind, std::vector<CudaCommand> commands, absl::Time now);
  // Observe() or Feed() would do something.
  bool HasNews() const;
  // Puts into the stream what there is room for. A copy of which a call fails ends with
  // kUnavailable and what CUDA said, once nothing of it runs any more; the lane goes on. Errors,
  // and then the device is lost: CUDA's for all calls (Failure()), or of a call that keeps the
  // lane's order.
  absl::Status Feed();
  // Ends what the word says has ended.
  void Observe(absl::Time now);
  bool TakeEnded(Completion* completion);
  // Since something happened here; zero when it is idle.
  absl::Duration Silence(absl::Time now) const;
  // False: something of ours still runs in the stream, or CUDA does not tell while an engine
  // captures a graph. CUDA's error that ended it: true. Someone else's stream is judged by
  // its marks: asking could disturb a capture.
  bool Quiet() const;
  // The error that ended all that the process runs on the GPU, in whatever stream: CUDA repeats it
  // for every call. OK: there is none, or CUDA does not tell.
  absl::Status Failure() const;
  // Everything that has not ended ends with `status` now.
  void Abandon(absl::Time now, const absl::Status& status);

 private:
  struct Operation {
    Kind kind{};
    absl::Time submitted;
    std::vector<CudaCommand> commands;  // Emptied when all are in the stream.
    size_t fed = 0;
    uint64_t known_failures = 0;       // Failures whose ends were taken when it was added.
    absl::Status status;               // How it will end.
    uint64_t end_mark = ~uint64_t{0};  // Known when all are.
  };
  struct Mark {
    uint64_t number = 0;
    size_t entries = 0;  // Up to it, from the one before.
  };
  struct Span {
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
  };
  CudaLane(const CudaDriver& driver, const Options& options)
      : driver_(driver), options_(options), stream_(options.stream.value_or(nullptr)) {}
  absl::Status CreateStream();
  // The stream has room for the next command. REQUIRES: there is one.
  bool HasRoom() const;
  // Puts the next command of the operation. Errors: as Feed().
  absl::Status Put(Operation* operation);
  // Leaves out what is left of the operation, whose end is `status`. Errors: as Feed().
  absl::Status Fail(Operation* operation, const absl::Status& status);
  absl::Status AddMark();
  void End(absl::Time now, absl::Status status);
  absl::Duration TimeOf(const Operation& operation, absl::Time now) const;

  const CudaDriver driver_;
  const Options options_;
  cudaStream_t stream_;
  cudaStream_t ahead_ = nullptr;
  cudaEvent_t joined_ = nullptr;
  std::array<Span, kMaxLaneDepth> spans_{};  // By place; of a stream of its own only.
  uint64_t submitted_ = 0;
  uint64_t done_ = 0;
  std::deque<Operation> operations_;  // Not ended.
  size_t fed_operations_ = 0;         // Of these, wholly in the stream.
  size_t entries_ = 0;                // In the stream, not known to have ended.
  size_t unmarked_ = 0;               // Of these, behind the last mark.
  std::deque<Mark> marks_;            // In the stream.
  uint64_t last_mark_ = 0;
  uint64_t seen_mark_ = 0;
  std::deque<Completion> ended_;
  uint64_t failures_ = 0;                          // Operations that failed.
  uint64_t taken_failures_ = 0;                    // Failures whose ends were taken.
  absl::Time last_change_ = absl::InfinitePast();  // An end, or an addition when idle.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_LANE_H_
