// OutsideStreams let our lanes and the streams of an engine in this process, which are outside of
// our lanes, wait for each other by words in host memory. A stream of the engine writes a word
// after the work it was given so far, and an event of the engine is recorded after a word.
//
// No call waits for the device. Only CUDA has such streams.
#ifndef KVTIER_TIER_GPU_DEVICE_OUTSIDE_STREAMS_H_
#define KVTIER_TIER_GPU_DEVICE_OUTSIDE_STREAMS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tier_gpu/device/signal_page.h"

namespace kvtier {

// Names work that an engine submitted itself: everything that is in a stream now, or everything
// before the last recording of an event.
struct EngineWork {
  enum class Kind : uint8_t { kNothing, kStream, kEvent };
  Kind kind = Kind::kNothing;
  void* handle = nullptr;  // cudaStream_t (null is CUDA's default stream), or cudaEvent_t.
};

// Mark of engine work: the work has ended when the word is `value` or more.
struct WorkMark {
  const SignalWord* word = nullptr;  // Word to wait for; null: there is nothing to wait for.
  uint64_t value = 0;
  std::shared_ptr<const void> keep{};  // Keeps the word from other use.
};

// OutsideStreams marks engine work and records engine events. Thread-safe.
class OutsideStreams {
 public:
  // Waits for the marked work, at most a second. If some has not ended then, the words' memory
  // stays until the process ends.
  virtual ~OutsideStreams() = default;

  // Returns a mark of the work as it is now, without work that the stream is given later and
  // without a later recording of the event. Errors: kResourceExhausted, all words are taken;
  // kFailedPrecondition, the stream captures a graph; kUnavailable, CUDA's. REQUIRES: the handle is
  // of this device, and a stream does not begin to capture during the call.
  virtual absl::StatusOr<WorkMark> MarkOf(const EngineWork& work) = 0;
  // Records the event, a cudaEvent_t, for when the word reaches `value`. Events of several calls
  // complete in the order of the calls. Errors: kUnavailable, CUDA's. REQUIRES: the word is pinned,
  // and the operation that writes the value was handed over (Device::HandedOver()).
  virtual absl::Status RecordBehind(const SignalWord* word, uint64_t value, void* event) = 0;
};

// Opens the streams of the GPU with this ordinal. Errors: kUnavailable, a build without CUDA, no
// driver, or no such GPU; kResourceExhausted, no memory.
absl::StatusOr<std::unique_ptr<OutsideStreams>> OpenOutsideStreams(int ordinal);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_OUTSIDE_STREAMS_H_
