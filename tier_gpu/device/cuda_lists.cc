#include "tier_gpu/device/cuda_lists.h"

#include "absl/memory/memory.h"
#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<std::unique_ptr<CudaLists>> CudaLists::Open(cudaStream_t stream) {
  auto lists = absl::WrapUnique(new CudaLists);
  KVT_RETURN_IF_ERROR(lists->Allocate());
  *lists->of(0) = {.runs = 0};
  KVT_RETURN_IF_ERROR(lists->Launch({lists->of(0), 1}, kInLane, stream).put());
  KVT_RETURN_IF_ERROR(CudaStatus("cudaStreamSynchronize", cudaStreamSynchronize(stream)));
  return lists;
}

absl::Status CudaLists::Allocate() {
  void* lists = nullptr;
  KVT_RETURN_IF_ERROR(CudaStatus(
      "cudaHostAlloc",
      cudaHostAlloc(&lists, kMaxLaneDepth * kMaxStagedPieces * sizeof(kernels::StridedSegment),
                    cudaHostAllocPortable | cudaHostAllocMapped)));
  lists_ = static_cast<kernels::StridedSegment*>(lists);
  void* on_device = nullptr;
  KVT_RETURN_IF_ERROR(
      CudaStatus("cudaHostGetDevicePointer", cudaHostGetDevicePointer(&on_device, lists_, 0)));
  lists_on_device_ = static_cast<kernels::StridedSegment*>(on_device);
  return absl::OkStatus();
}

// Ignored: it fails when the device is lost, and then all is gone already.
CudaLists::~CudaLists() {
  if (lists_ != nullptr) (void)cudaFreeHost(lists_);
  (void)cudaGetLastError();
}

CudaCommand CudaLists::Launch(Segments segments, CudaCommand::Where where,
                              cudaStream_t stream) const {
  const kernels::CopySegmentsLaunch launch = {
      .segments = lists_on_device_ + (segments.data() - lists_),
      .count = static_cast<uint32_t>(segments.size()),
      .thread_blocks = kCopyThreadBlocks,
      .stream = stream};
  return {where, [launch] {
            return LaunchStatus("the copying kernel",
                                [&launch] { return kernels::CopySegmentsOnDevice(launch); });
          }};
}

}  // namespace kvtier
