#include "tier_gpu/device/cuda_copies.h"

#include <utility>

namespace kvtier {
namespace {

#if CUDART_VERSION >= 12080
// The lists are not const: 12.8 does not write to them, but does not say so.
absl::Status EnqueueBatch(std::vector<void*>& destinations, std::vector<void*>& sources,
                          std::vector<size_t>& sizes, const CudaCopies::Options& options,
                          cudaStream_t stream) {
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder =
      options.early_source ? cudaMemcpySrcAccessOrderAny : cudaMemcpySrcAccessOrderStream;
  // The copy engine, please, and no kernel beside the engine's own.
  attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
  // All copies from the first one on have these.
  size_t first = 0;
#if CUDART_VERSION >= 13000
  const cudaError_t error = cudaMemcpyBatchAsync(destinations.data(), sources.data(), sizes.data(),
                                                 sizes.size(), &attributes, &first, 1, stream);
#else
  size_t failed = 0;
  const cudaError_t error =
      cudaMemcpyBatchAsync(destinations.data(), sources.data(), sizes.data(), sizes.size(),
                           &attributes, &first, 1, &failed, stream);
#endif
  return CudaStatus("cudaMemcpyBatchAsync", error);
}
#endif

}  // namespace

void CudaCopies::Add(std::byte* destination, const std::byte* source, size_t bytes) {
  destinations_.push_back(destination);
  sources_.push_back(const_cast<std::byte*>(source));
  sizes_.push_back(bytes);
}

void CudaCopies::AppendTo(std::vector<CudaCommand>* commands, cudaStream_t stream,
                          const Options& options) && {
  if (sizes_.empty()) return;  // An empty batch is an error to CUDA.
#if CUDART_VERSION >= 12080
  if (options.calls == Calls::kBatched) {
    commands->emplace_back([copies = std::move(*this), options, stream]() mutable {
      return EnqueueBatch(copies.destinations_, copies.sources_, copies.sizes_, options, stream);
    });
    return;
  }
#endif
  for (size_t i = 0; i < sizes_.size(); ++i) {
    commands->emplace_back(
        [destination = destinations_[i], source = sources_[i], bytes = sizes_[i], stream] {
          return CudaStatus("cudaMemcpyAsync",
                            cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, stream));
        });
  }
}

}  // namespace kvtier
