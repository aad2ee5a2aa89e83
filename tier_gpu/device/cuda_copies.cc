#include "tier_gpu/device/cuda_copies.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// CUDA version that introduced the batched call.
constexpr int kBatchedCallsSince = 12080;
static_assert(CUDART_VERSION >= kBatchedCallsSince);

}  // namespace

absl::Status CudaCopies::CheckDriver() {
  int driver = 0;
  KVT_RETURN_IF_ERROR(CudaStatus("cudaDriverGetVersion", cudaDriverGetVersion(&driver)));
  if (driver >= kBatchedCallsSince) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the GPU driver is for CUDA ", driver / 1000, ".",
                                             driver % 1000 / 10,
                                             "; update it to one for CUDA 12.8 or later"));
}

absl::Status CudaCopies::Enqueue(Batch& list, cudaStream_t stream) {
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  // Asks for the GPU's copy engine, so that no kernel of the copy competes with the inference
  // engine's kernels.
  attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
  // These attributes apply to all copies from the first one on.
  size_t first = 0;
#if CUDART_VERSION >= 13000
  const cudaError_t error =
      cudaMemcpyBatchAsync(list.destinations.data(), list.sources.data(), list.sizes.data(),
                           list.sizes.size(), &attributes, &first, 1, stream);
#else
  size_t failed = 0;
  const cudaError_t error =
      cudaMemcpyBatchAsync(list.destinations.data(), list.sources.data(), list.sizes.data(),
                           list.sizes.size(), &attributes, &first, 1, &failed, stream);
#endif
  return CudaStatus("cudaMemcpyBatchAsync", error);
}

void CudaCopies::Add(std::byte* destination, const std::byte* source, size_t bytes) {
  if (batches_.empty() || batches_.back().sizes.size() == kMaxBatchedCopies)
    batches_.emplace_back();
  Batch& batch = batches_.back();
  batch.destinations.push_back(destination);
  batch.sources.push_back(const_cast<std::byte*>(source));
  batch.sizes.push_back(bytes);
}

void CudaCopies::AppendTo(std::vector<CudaCommand>* commands, CudaCommand::Where where,
                          cudaStream_t stream) && {
  for (Batch& batch : batches_) {
    const size_t count = batch.sizes.size();
    commands->push_back(
        {.where = where,
         .put = [batch = std::move(batch), stream]() mutable { return Enqueue(batch, stream); },
         .entries = count});
  }
}

}  // namespace kvtier
