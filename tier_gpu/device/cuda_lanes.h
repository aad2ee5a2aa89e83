// CudaLanes are the lanes of one GPU, with what the two copying lanes need for their kernels, and
// the words by which all lanes report ended operations.
#ifndef KVTIER_TIER_GPU_DEVICE_CUDA_LANES_H_
#define KVTIER_TIER_GPU_DEVICE_CUDA_LANES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tier_gpu/device/cuda_blocks.h"
#include "tier_gpu/device/cuda_driver.h"
#include "tier_gpu/device/cuda_lane.h"
#include "tier_gpu/device/device.h"

namespace kvtier {

// CudaLanes is called by one thread at a time. The caller enters the context before methods that
// call CUDA, as with CudaLane.
class CudaLanes {
 public:
  struct Options {
    bool kernels = false;
    uint64_t largest_block = 0;                  // Largest block of the kernels, as in CudaBlocks.
    std::optional<cudaStream_t> compute_stream;  // Somebody else's stream, as Lane::kCompute.
  };
  CudaLanes(const CudaDriver& driver, const Options& options)
      : driver_(driver), options_(options) {}
  // Opens the lanes. Call it once, before any other method. After an error only Quiet() and the
  // destructor may be called. Errors: CudaStatus()'s.
  absl::Status Open();
  // REQUIRES: Quiet() is true.
  ~CudaLanes();
  CudaLanes(const CudaLanes&) = delete;
  CudaLanes& operator=(const CudaLanes&) = delete;

  CudaLane& of(Lane lane) { return *lanes_[static_cast<size_t>(lane)]; }
  // Returns null without kernels, and for kCompute.
  CudaBlocks* blocks(Lane lane) { return blocks_[static_cast<size_t>(lane)].get(); }

  // HasWork() and the functions after it act as CudaLane's of the same name do, on all lanes.
  bool HasWork() const;
  void Observe(absl::Time now);
  absl::Status Feed();
  size_t TakeEnded(std::span<Completion> ended);
  void Abandon(absl::Time now, const absl::Status& status);
  bool idle() const;
  // Return, among the lanes that are not idle, the longest and the shortest time since something
  // happened in one. If all are idle: zero and infinite.
  absl::Duration LongestTimeSinceChange(absl::Time now) const;
  absl::Duration ShortestTimeSinceChange(absl::Time now) const;
  // Returns whether nothing of ours runs any more, because all has ended or CUDA has failed.
  bool Quiet() const;
  // Returns the error of any stream: an error ends all work of the process on the GPU. The engine's
  // stream is not asked, as that could disturb the capture of a graph.
  absl::Status Failure() const;

 private:
  // Word by which one lane reports ended operations, in a cache line of its own.
  struct alignas(64) EndWord {
    SignalWord value;
  };
  absl::Status OpenWords();

  const CudaDriver driver_;
  const Options options_;
  EndWord* words_ = nullptr;  // Page-locked array of kLanes words.
  std::array<std::unique_ptr<CudaLane>, kLanes> lanes_;
  std::array<std::unique_ptr<CudaBlocks>, kLanes> blocks_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_LANES_H_
