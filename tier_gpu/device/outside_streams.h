// OutsideStreams are how our lanes and the streams of an engine in this process, which are outside
// of our lanes, wait for each other by words in host memory: a stream of the engine's writes a word
// behind what it was given so far, and an event of the engine's is recorded behind a word.
//
// No call waits for the device. CUDA alone has such streams.
#ifndef KVTIER_TIER_GPU_DEVICE_OUTSIDE_STREAMS_H_
#define KVTIER_TIER_GPU_DEVICE_OUTSIDE_STREAMS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tier_gpu/device/signal_page.h"

namespace kvtier {

// Names what an engine has submitted by itself: all that is in a stream at the moment, or what an
// event was last recorded behind.
struct EngineWork {
  enum class Kind : uint8_t { kNothing, kStream, kEvent };
  Kind kind = Kind::kNothing;
  void* handle = nullptr;  // cudaStream_t, null being CUDA's default stream, or cudaEvent_t.
};

// The work has ended when the word is `value` or more.
struct WorkMark {
  const SignalWord* word = nullptr;  // Null: there is nothing to wait for.
  uint64_t value = 0;
  std::shared_ptr<const void> keep{};  // Keeps the word from other use.
};

// Thread-safe.
class OutsideStreams {
 public:
  // Waits for what was marked, for a second at most; words that may still be written then stay as
  // long as the process.
  virtual ~OutsideStreams() = default;

  // Returns a mark of the work as it is now. What the stream is given later, and a later recording
  // of the event, is not in it. Errors: kResourceExhausted, all words are taken;
  // kFailedPrecondition, the stream captures a graph; kUnavailable, CUDA's. REQUIRES: the handle is
  // of this device, and a stream does not begin to capture meanwhile.
  virtual absl::StatusOr<WorkMark> MarkOf(const EngineWork& work) = 0;
  // Records the event, a cudaEvent_t, behind the word's reaching `value`. Events that are given so
  // come in the order of the calls. Errors: kUnavailable, CUDA's. REQUIRES: the word is pinned, and
  // nothing but the device is needed any more for it to reach the value.
  virtual absl::Status RecordBehind(const SignalWord* word, uint64_t value, void* event) = 0;
};

// Opens them for the GPU of this ordinal. Errors: kUnavailable, a build without CUDA, no driver, or
// no such GPU; kResourceExhausted, no memory.
absl::StatusOr<std::unique_ptr<OutsideStreams>> OpenOutsideStreams(int ordinal);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_OUTSIDE_STREAMS_H_
