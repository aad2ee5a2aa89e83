#include "tier_gpu/device/cuda_outside_streams.h"

#include <array>
#include <cstddef>
#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "tier_gpu/device/cuda_driver.h"
#include "tier_gpu/device/cuda_host_memory.h"
#include "tier_gpu/device/pinned_memory.h"

namespace kvtier {
namespace {

// Time for which the destructor waits for marks that an engine's stream has not reached.
constexpr absl::Duration kEndTimeout = absl::Seconds(1);
constexpr absl::Duration kEndInterval = absl::Microseconds(50);

// MarkWords holds the words of marks, and the stream that waits for events and writes the words.
// Marks share its ownership, so an engine's stream never writes to freed memory.
class MarkWords {
 public:
  MarkWords(const CudaDriver& driver, const CudaContext& context)
      : driver_(driver), context_(context), host_(context, kPinChunkBytes) {}
  MarkWords(const MarkWords&) = delete;
  MarkWords& operator=(const MarkWords&) = delete;
  ~MarkWords() {
    const CudaScope scope(context_);
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
    host_.UnpinAll();
  }

  absl::Status Open() {
    const CudaScope scope(context_);
    KVT_ASSIGN_OR_RETURN(page_, SignalPage::Create());
    KVT_RETURN_IF_ERROR(host_.Pin(page_->bytes()));
    {
      const absl::MutexLock lock(&mu_);
      for (size_t i = 0; i < kSignalWords; ++i) free_.push_back(i);
    }
    return CudaStatus("cudaStreamCreateWithPriority",
                      cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0));
  }

  // Returns a free word, and the value that it is to reach.
  absl::StatusOr<std::pair<size_t, uint64_t>> Take() ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    // The stream of a word that has not reached its value will still write that value, which would
    // be less than that of a new mark, perhaps after it.
    auto found = free_.begin();
    while (found != free_.end() && !IsReached(*found)) ++found;
    if (found == free_.end()) {
      return absl::ResourceExhaustedError(
          "outside streams: all marks on the engine's streams are in use; try again");
    }
    const size_t index = *found;
    free_.erase(found);
    return std::pair(index, ++last_[index]);
  }
  // Gives back a word, whether or not it has reached its value.
  void GiveBack(size_t index) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    free_.push_back(index);
  }
  // Undoes Take() for a word that no stream was told to write.
  void Unwritten(size_t index) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    --last_[index];
    free_.push_back(index);
  }

  absl::Status WriteBehind(const EngineWork& work, size_t index, uint64_t value) {
    cudaStream_t stream = static_cast<cudaStream_t>(work.handle);
    if (work.kind == EngineWork::Kind::kEvent) {
      stream = stream_;
      const cudaError_t error =
          cudaStreamWaitEvent(stream, static_cast<cudaEvent_t>(work.handle), 0);
      KVT_RETURN_IF_ERROR(CudaStatus("cudaStreamWaitEvent", error));
    } else {
      KVT_RETURN_IF_ERROR(CheckNoCapture(stream));
    }
    const auto at = reinterpret_cast<CUdeviceptr>(host_.DeviceAddress(page_->word(index)));
    return driver_.Status("cuStreamWriteValue64",
                          driver_.write_word(stream, at, value, CU_STREAM_WRITE_VALUE_DEFAULT));
  }

  const SignalWord* word(size_t index) const { return page_->word(index); }
  // Returns whether every mark that was taken was reached.
  bool Quiet() const ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    for (size_t i = 0; i < kSignalWords; ++i) {
      if (!IsReached(i)) return false;
    }
    return true;
  }

 private:
  bool IsReached(size_t index) const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return page_->word(index)->load(std::memory_order_acquire) >= last_[index];
  }
  // Returns kFailedPrecondition if the stream captures a graph: a word would become part of the
  // graph, and be written when the graph runs.
  static absl::Status CheckNoCapture(cudaStream_t stream) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    const cudaError_t error = cudaStreamIsCapturing(stream, &capture);
    const absl::Status asked = CudaStatus("cudaStreamIsCapturing", error);
    // CUDA reports a capture for the default stream while any stream that it waits for captures.
    if (!IsOfCapture(error) && capture == cudaStreamCaptureStatusNone) return asked;
    return absl::FailedPreconditionError(
        "outside streams: the stream is capturing a CUDA graph, in which nothing can be signalled; "
        "call outside of the capture");
  }

  const CudaDriver driver_;
  const CudaContext context_;
  CudaHostMemory host_;
  std::unique_ptr<SignalPage> page_;
  cudaStream_t stream_ = nullptr;  // Stream of the marks of events.
  mutable absl::Mutex mu_;
  // Words that no mark uses, in the order in which they were given back.
  std::deque<size_t> free_ ABSL_GUARDED_BY(mu_);
  // Value that was last requested for each word.
  std::array<uint64_t, kSignalWords> last_ ABSL_GUARDED_BY(mu_){};
};

class CudaOutsideStreams final : public OutsideStreams {
 public:
  CudaOutsideStreams(const CudaDriver& driver, const CudaContext& context)
      : driver_(driver), context_(context), words_(std::make_shared<MarkWords>(driver, context)) {}
  ~CudaOutsideStreams() override {
    const CudaScope scope(context_);
    const absl::Time deadline = MonotonicClock().Now() + kEndTimeout;
    while (!Quiet() && MonotonicClock().Now() < deadline) absl::SleepFor(kEndInterval);
    if (!Quiet()) {
      Log(LogLevel::kWarning,
          "outside streams: work of the engine still runs as they are closed; the memory that its "
          "end is written to is freed when the process ends");
      // NOLINTNEXTLINE(bugprone-unused-return-value): the words stay until the process ends.
      (void)std::make_unique<std::shared_ptr<MarkWords>>(words_).release();
      return;
    }
    if (records_ != nullptr) (void)cudaStreamDestroy(records_);
  }

  absl::Status Open() {
    KVT_RETURN_IF_ERROR(words_->Open());
    const CudaScope scope(context_);
    return CudaStatus("cudaStreamCreateWithPriority",
                      cudaStreamCreateWithPriority(&records_, cudaStreamNonBlocking, 0));
  }

  absl::StatusOr<WorkMark> MarkOf(const EngineWork& work) override {
    if (work.kind == EngineWork::Kind::kNothing) return WorkMark();
    KVT_ASSIGN_OR_RETURN(const auto taken, words_->Take());
    const auto [index, value] = taken;
    const CudaScope scope(context_);
    if (absl::Status written = words_->WriteBehind(work, index, value); !written.ok()) {
      words_->Unwritten(index);
      return written;
    }
    auto give_back = [words = words_, index = index](const SignalWord*) { words->GiveBack(index); };
    return WorkMark{
        .word = words_->word(index),
        .value = value,
        .keep = std::shared_ptr<const SignalWord>(words_->word(index), std::move(give_back))};
  }

  absl::Status RecordBehind(const SignalWord* word, uint64_t value, void* event) override {
    const CudaScope scope(context_);
    void* at = nullptr;
    KVT_RETURN_IF_ERROR(
        CudaStatus("cudaHostGetDevicePointer",
                   cudaHostGetDevicePointer(&at, const_cast<SignalWord*>(word), 0)));
    KVT_RETURN_IF_ERROR(driver_.Status(
        "cuStreamWaitValue64", driver_.wait_word(records_, reinterpret_cast<CUdeviceptr>(at), value,
                                                 CU_STREAM_WAIT_VALUE_GEQ)));
    return CudaStatus("cudaEventRecord",
                      cudaEventRecord(static_cast<cudaEvent_t>(event), records_));
  }

 private:
  bool Quiet() const { return words_->Quiet() && (records_ == nullptr || IsQuiet(records_)); }

  const CudaDriver driver_;
  const CudaContext context_;
  const std::shared_ptr<MarkWords> words_;
  cudaStream_t records_ = nullptr;  // Stream that records events.
};

}  // namespace

absl::StatusOr<std::unique_ptr<OutsideStreams>> OpenCudaOutsideStreams(int ordinal) {
  KVT_ASSIGN_OR_RETURN(const CudaDriver driver, CudaDriver::Find());
  KVT_ASSIGN_OR_RETURN(const CudaContext context, CudaContext::Open(driver, ordinal));
  KVT_RETURN_IF_ERROR(context.CheckAbilities());
  auto streams = std::make_unique<CudaOutsideStreams>(driver, context);
  KVT_RETURN_IF_ERROR(streams->Open());
  return streams;
}

}  // namespace kvtier
