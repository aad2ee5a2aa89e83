// CudaCopies is a list of copies that one stream makes, in no order among each other:
// one call for all of them where the toolkit has it, or one call each.
#ifndef KVTIER_TIER_GPU_DEVICE_CUDA_COPIES_H_
#define KVTIER_TIER_GPU_DEVICE_CUDA_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tier_gpu/device/cuda_driver.h"
#include "tier_gpu/device/cuda_lane.h"

namespace kvtier {

class CudaCopies {
 public:
  enum class Calls : uint8_t {
    kBatched,  // One for the list. REQUIRES: HasBatchedCalls().
    kSingle,   // About 2 us of the caller each, but of every driver.
  };
  // The toolkit that built this and the machine's driver both do (12.8).
  static bool HasBatchedCalls();
  struct Options {
    CudaCommand::Where where{};
    cudaStream_t stream = nullptr;
    Calls calls = Calls::kBatched;
    bool early_source = false;  // As CopyBatch::early_source; batched calls only.
  };

  void Add(std::byte* destination, const std::byte* source, size_t bytes);
  // What makes the copies in the stream, to the end of `commands`.
  void AppendTo(std::vector<CudaCommand>* commands, const Options& options) &&;

 private:
  std::vector<void*> destinations_;
  std::vector<void*> sources_;
  std::vector<size_t> sizes_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_COPIES_H_
