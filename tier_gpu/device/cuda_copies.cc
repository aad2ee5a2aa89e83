#include "tier_gpu/device/cuda_copies.h"

#include <utility>

namespace kvtier {
namespace {

// CUDA's version with the call.
constexpr int kBatchedCallsSince = 12080;

}  // namespace

bool CudaCopies::HasBatchedCalls() {
  int driver = 0;
  const bool told = CudaStatus("cudaDriverGetVersion", cudaDriverGetVersion(&driver)).ok();
  return told && driver >= kBatchedCallsSince && CUDART_VERSION >= kBatchedCallsSince;
}

#if CUDART_VERSION >= 12080
absl::Status CudaCopies::Enqueue(Batch& list, const Options& options) {
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  // The copy engine, please, and no kernel beside the engine's own.
  attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
  // All copies from the first one on have these.
  size_t first = 0;
#if CUDART_VERSION >= 13000
  const cudaError_t error =
      cudaMemcpyBatchAsync(list.destinations.data(), list.sources.data(), list.sizes.data(),
                           list.sizes.size(), &attributes, &first, 1, options.stream);
#else
  size_t failed = 0;
  const cudaError_t error =
      cudaMemcpyBatchAsync(list.destinations.data(), list.sources.data(), list.sizes.data(),
                           list.sizes.size(), &attributes, &first, 1, &failed, options.stream);
#endif
  return CudaStatus("cudaMemcpyBatchAsync", error);
}
#endif

void CudaCopies::Add(std::byte* destination, const std::byte* source, size_t bytes) {
  if (batches_.empty() || batches_.back().sizes.size() == kMaxBatchedCopies)
    batches_.emplace_back();
  Batch& batch = batches_.back();
  batch.destinations.push_back(destination);
  batch.sources.push_back(const_cast<std::byte*>(source));
  batch.sizes.push_back(bytes);
}

void CudaCopies::AppendTo(std::vector<CudaCommand>* commands, const Options& options) && {
  for (Batch& batch : batches_) {
    const size_t count = batch.sizes.size();
#if CUDART_VERSION >= 12080
    if (options.calls == Calls::kBatched) {
      commands->push_back(
          {.where = options.where,
           .put = [batch = std::move(batch), options]() mutable { return Enqueue(batch, options); },
           .entries = count});
      continue;
    }
#endif
    for (size_t i = 0; i < count; ++i) {
      const auto copy = [to = batch.destinations[i], from = batch.sources[i],
                         bytes = batch.sizes[i], stream = options.stream] {
        return CudaStatus("cudaMemcpyAsync",
                          cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
      };
      commands->push_back({options.where, copy});
    }
  }
}

}  // namespace kvtier
