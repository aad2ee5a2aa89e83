// CudaCopies is a list of copies that one stream makes, in no order among each other: by
// few calls where toolkit and driver have them, or by one call each.
#ifndef KVTIER_TIER_GPU_DEVICE_CUDA_COPIES_H_
#define KVTIER_TIER_GPU_DEVICE_CUDA_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tier_gpu/device/cuda_driver.h"
#include "tier_gpu/device/cuda_lane.h"

namespace kvtier {

// Of one call. Drivers queue each copy of it as an entry of the stream, so that one call of
// 1,024 behind a wait would make its caller wait, too.
inline constexpr size_t kMaxBatchedCopies = kMaxCommandEntries;

class CudaCopies {
 public:
  enum class Calls : uint8_t {
    kBatched,  // One for up to kMaxBatchedCopies. REQUIRES: HasBatchedCalls().
    kSingle,   // About 2 us of the caller each, but of every driver.
  };
  // The toolkit that built this and the machine's driver both do (12.8).
  static bool HasBatchedCalls();
  struct Options {
    CudaCommand::Where where{};
    cudaStream_t stream = nullptr;
    Calls calls = Calls::kBatched;
  };

  void Add(std::byte* destination, const std::byte* source, size_t bytes);
  // What makes the copies in the stream, to the end of `commands`.
  void AppendTo(std::vector<CudaCommand>* commands, const Options& options) &&;

 private:
  struct Batch {
    std::vector<void*> destinations;
    std::vector<void*> sources;
    std::vector<size_t> sizes;
  };
#if CUDART_VERSION >= 12080
  // The lists are not const: 12.8 does not write to them, but does not say so.
  static absl::Status Enqueue(Batch& list, const Options& options);
#endif

  std::vector<Batch> batches_;  // None is empty: that is an error to CUDA.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_COPIES_H_
