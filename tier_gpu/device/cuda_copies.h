// CudaCopies is a list of copies that one stream makes with few calls, in no order among each
// other.
#ifndef KVTIER_TIER_GPU_DEVICE_CUDA_COPIES_H_
#define KVTIER_TIER_GPU_DEVICE_CUDA_COPIES_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "tier_gpu/device/cuda_driver.h"
#include "tier_gpu/device/cuda_lane.h"

namespace kvtier {

// Maximum number of copies in one call. Drivers queue each copy as an entry of the stream, so one
// call of 1,024 copies queued after a wait would make its caller wait, too.
inline constexpr size_t kMaxBatchedCopies = kMaxCommandEntries;

class CudaCopies {
 public:
  // Returns kUnavailable if the driver is older than the batched call (CUDA 12.8).
  static absl::Status CheckDriver();

  void Add(std::byte* destination, const std::byte* source, size_t bytes);
  // Appends the commands that make the copies in `stream`, which is `where`.
  void AppendTo(std::vector<CudaCommand>* commands, CudaCommand::Where where,
                cudaStream_t stream) &&;

 private:
  struct Batch {
    std::vector<void*> destinations;
    std::vector<void*> sources;
    std::vector<size_t> sizes;
  };
  // Takes the lists as not const: CUDA 12.8 does not write to them, but its signature is not const.
  static absl::Status Enqueue(Batch& list, cudaStream_t stream);

  std::vector<Batch> batches_;  // No batch is empty: CUDA treats an empty one as an error.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_COPIES_H_
