// CudaLists are the lists of segments that a lane's copying kernels read: page-locked
// memory, one list for each operation that the lane may hold.
#ifndef KVTIER_TIER_GPU_DEVICE_CUDA_LISTS_H_
#define KVTIER_TIER_GPU_DEVICE_CUDA_LISTS_H_

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/copy_segments.h"
#include "tier_gpu/device/cuda_commands.h"
#include "tier_gpu/device/cuda_lane.h"
#include "tier_gpu/device/staging_plan.h"

namespace kvtier {

// Of the copying kernels: enough for the link, few enough to leave the GPU to the engine.
inline constexpr uint32_t kCopyThreadBlocks = 8;

// One thread at a time; the context is entered by the caller.
class CudaLists {
 public:
  using Segments = std::span<const kernels::StridedSegment>;

  // Loads the kernel too, in `stream`: later that could wait for all that runs. Errors:
  // CudaStatus()'s.
  static absl::StatusOr<std::unique_ptr<CudaLists>> Open(cudaStream_t stream);
  // REQUIRES: no launch reads them any more.
  ~CudaLists();
  CudaLists(const CudaLists&) = delete;
  CudaLists& operator=(const CudaLists&) = delete;

  // Room for kMaxStagedPieces, of the operation at this place (CudaLane::next_place).
  kernels::StridedSegment* of(size_t place) const { return lists_ + place * kMaxStagedPieces; }
  // Of `segments`, which lie in the lists, in `stream`, which is `where`.
  CudaCommand Launch(Segments segments, CudaCommand::Where where, cudaStream_t stream) const;

 private:
  CudaLists() = default;
  absl::Status Allocate();

  kernels::StridedSegment* lists_ = nullptr;  // kMaxLaneDepth of them.
  kernels::StridedSegment* lists_on_device_ = nullptr;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_LISTS_H_
