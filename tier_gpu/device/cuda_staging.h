// CudaStaging is what the staged path of one direction needs: the lists of segments that
// the kernels read, and a ring of buffers on the device.
//
// The buffers are filled in a stream of their own, ahead of the lane's, and emptied in
// the lane's: an offload gathers ahead, an onboarding copies ahead. Both streams wait for
// each other by events on the device. What is ahead waits for the lane where the lane
// awaited a word: what the word stands for is what it reads.
#ifndef KVTIER_TIER_GPU_DEVICE_CUDA_STAGING_H_
#define KVTIER_TIER_GPU_DEVICE_CUDA_STAGING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/copy_segments.h"
#include "tier_gpu/device/cuda_commands.h"
#include "tier_gpu/device/cuda_copies.h"
#include "tier_gpu/device/cuda_driver.h"
#include "tier_gpu/device/cuda_host_memory.h"
#include "tier_gpu/device/cuda_lane.h"
#include "tier_gpu/device/cuda_lists.h"
#include "tier_gpu/device/device.h"

namespace kvtier {

inline constexpr size_t kStagingBuffers = 4;

// One thread at a time; the context is entered by the caller.
class CudaStaging {
 public:
  struct Options {
    CopyDirection direction{};
    cudaStream_t lane = nullptr;  // Not owned.
    int priority = 0;             // Of the stream of its own.
    CudaCopies::Calls calls{};
  };
  // Loads the kernel too: later that could wait for all that runs. Errors: CudaStatus()'s.
  static absl::StatusOr<std::unique_ptr<CudaStaging>> Open(const Options& options);
  // REQUIRES: Quiet(), and so is the lane.
  ~CudaStaging();
  CudaStaging(const CudaStaging&) = delete;
  CudaStaging& operator=(const CudaStaging&) = delete;

  // What makes the copies of the batch, for the lane to feed, in its order. `place` is
  // the operation's (CudaLane::next_place). Errors: kInvalidArgument, as PlanStaging().
  absl::StatusOr<std::vector<CudaCommand>> Staged(const CopyBatch& batch,
                                                  const CudaHostMemory& host, size_t place);
  // To be fed right after the lane awaited something; and what waits for that, ahead.
  CudaCommand Fence() const { return streams_.Record(awaited_, kInLane); }
  CudaCommand BehindFence() const { return streams_.WaitFor(awaited_, kAhead); }
  // The lane's, and the one ahead.
  const CudaStreams& streams() const { return streams_; }
  // The event that CudaLane::Join() takes.
  cudaEvent_t joined() const { return joined_; }
  // As CudaLane::Quiet(), of the stream ahead.
  bool Quiet() const { return IsQuiet(streams_.ahead); }

 private:
  struct Buffer {
    std::byte* memory = nullptr;  // kStagingBufferBytes on the device.
    cudaEvent_t filled = nullptr;
    cudaEvent_t emptied = nullptr;
  };
  explicit CudaStaging(const Options& options)
      : options_(options), streams_{.lane = options.lane} {}
  absl::Status Allocate();
  CudaCommand Launch(CudaLists::Segments segments, CudaCommand::Where where) const {
    return lists_->Launch(segments, where, streams_.of(where));
  }

  const Options options_;
  CudaStreams streams_;
  std::byte* memory_ = nullptr;
  std::array<Buffer, kStagingBuffers> buffers_;
  size_t next_buffer_ = 0;
  cudaEvent_t awaited_ = nullptr;
  cudaEvent_t joined_ = nullptr;
  std::unique_ptr<CudaLists> lists_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_STAGING_H_
