#include "tier_gpu/device/cuda_copies.h"

#include <utility>

namespace kvtier {
namespace {

// CUDA's version with the call.
constexpr int kBatchedCallsSince = 12080;

#if CUDART_VERSION >= 12080
// The lists are not const: 12.8 does not write to them, but does not say so.
absl::Status EnqueueBatch(std::vector<void*>& destinations, std::vector<void*>& sources,
                          std::vector<size_t>& sizes, const CudaCopies::Options& options) {
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder =
      options.early_source ? cudaMemcpySrcAccessOrderAny : cudaMemcpySrcAccessOrderStream;
  // The copy engine, please, and no kernel beside the engine's own.
  attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
  // All copies from the first one on have these.
  size_t first = 0;
#if CUDART_VERSION >= 13000
  const cudaError_t error =
      cudaMemcpyBatchAsync(destinations.data(), sources.data(), sizes.data(), sizes.size(),
                           &attributes, &first, 1, options.stream);
#else
  size_t failed = 0;
  const cudaError_t error =
      cudaMemcpyBatchAsync(destinations.data(), sources.data(), sizes.data(), sizes.size(),
                           &attributes, &first, 1, &failed, options.stream);
#endif
  return CudaStatus("cudaMemcpyBatchAsync", error);
}
#endif

}  // namespace

bool CudaCopies::HasBatchedCalls() {
  int driver = 0;
  const bool told = CudaStatus("cudaDriverGetVersion", cudaDriverGetVersion(&driver)).ok();
  return told && driver >= kBatchedCallsSince && CUDART_VERSION >= kBatchedCallsSince;
}

void CudaCopies::Add(std::byte* destination, const std::byte* source, size_t bytes) {
  destinations_.push_back(destination);
  sources_.push_back(const_cast<std::byte*>(source));
  sizes_.push_back(bytes);
}

void CudaCopies::AppendTo(std::vector<CudaCommand>* commands, const Options& options) && {
  if (sizes_.empty()) return;  // An empty batch is an error to CUDA.
#if CUDART_VERSION >= 12080
  if (options.calls == Calls::kBatched) {
    commands->push_back({options.where, [copies = std::move(*this), options]() mutable {
                           return EnqueueBatch(copies.destinations_, copies.sources_, copies.sizes_,
                                               options);
                         }});
    return;
  }
#endif
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const auto copy = [to = destinations_[i], from = sources_[i], bytes = sizes_[i],
                       stream = options.stream] {
      return CudaStatus("cudaMemcpyAsync",
                        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
    };
    commands->push_back({options.where, copy});
  }
}

}  // namespace kvtier
