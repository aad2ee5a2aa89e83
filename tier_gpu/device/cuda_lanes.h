// CudaLanes are the lanes of one GPU, with what the two that copy need for their kernels,
// and the words by which all of them tell what has ended.
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

// One thread at a time. The context is entered by the caller of what calls CUDA, as with
// CudaLane.
class CudaLanes {
 public:
  struct Options {
    bool kernels = false;
    uint64_t largest_block = 0;                  // With kernels, as CudaBlocks has it.
    std::optional<cudaStream_t> compute_stream;  // Somebody else's, as Lane::kCompute.
  };
  CudaLanes(const CudaDriver& driver, const Options& options)
      : driver_(driver), options_(options) {}
  // Once, ahead of all else. After an error only Quiet() and the destructor are left.
  // Errors: CudaStatus()'s.
  absl::Status Open();
  // REQUIRES: Quiet().
  ~CudaLanes();
  CudaLanes(const CudaLanes&) = delete;
  CudaLanes& operator=(const CudaLanes&) = delete;

  CudaLane& of(Lane lane) { return *lanes_[static_cast<size_t>(lane)]; }
  // Null without kernels, and for kCompute.
  CudaBlocks* blocks(Lane lane) { return blocks_[static_cast<size_t>(lane)].get(); }

  // Of CudaLane, for all of them.
  bool HasNews() const;
  void Observe(absl::Time now);
  absl::Status Feed();
  size_t TakeEnded(std::span<Completion> ended);
  void Abandon(absl::Time now, const absl::Status& status);
  bool idle() const;
  // Of the lanes that are not idle: the one in which nothing happened for the longest
  // time, and the one in which something did last. Zero and infinite, all are idle.
  absl::Duration LongestSilence(absl::Time now) const;
  absl::Duration ShortestSilence(absl::Time now) const;
  // Nothing of ours runs any more, because all has ended or CUDA has.
  bool Quiet() const;
  // Of any stream: an error ends all that the process runs on the GPU. Not asked of the
  // engine's, where asking could disturb the capture of a graph.
  absl::Status Failure() const;

 private:
  // Page-locked, a cache line apart.
  struct alignas(64) EndWord {
    SignalWord value;
  };
  absl::Status OpenWords();

  const CudaDriver driver_;
  const Options options_;
  EndWord* words_ = nullptr;  // kLanes of them.
  std::array<std::unique_ptr<CudaLane>, kLanes> lanes_;
  std::array<std::unique_ptr<CudaBlocks>, kLanes> blocks_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_LANES_H_
