// CudaCopies is a list of copies that one stream makes, by few calls and in no order among each
// other.
#ifndef KVTIER_TIER_GPU_DEVICE_CUDA_COPIES_H_
#define KVTIER_TIER_GPU_DEVICE_CUDA_COPIES_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "tier_gpu/device/cuda_driver.h"
#include "tier_gpu/device/cuda_lane.h"

namespace kvtier {

// Of one call. Drivers queue each copy of it as an entry of the stream, so that one call of
// 1,024 behind a wait would make its caller wait, too.
inline constexpr size_t kMaxBatchedCopies = kMaxCommandEntries;

class CudaCopies {
 public:
  // Errors: kUnavailable, the driver is older than the call (CUDA 12.8).
  static absl::Status CheckDriver();

  void Add(std::byte* destination, const std::byte* source, size_t bytes);
  // Appends what makes the copies in `stream`, which is `where`.
  void AppendTo(std::vector<CudaCommand>* commands, CudaCommand::Where where,
                cudaStream_t stream) &&;

 private:
  struct Batch {
    std::vector<void*> destinations;
    std::vector<void*> sources;
    std::vector<size_t> sizes;
  };
  // The lists are not const: 12.8 does not write to them, but does not say so.
  static absl::Status Enqueue(Batch& list, cudaStream_t stream);

  std::vector<Batch> batches_;  // None is empty: that is an error to CUDA.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_COPIES_H_
