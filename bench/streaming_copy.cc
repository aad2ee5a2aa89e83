#include "bench/streaming_copy.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvtier::bench {

namespace {

#if defined(__x86_64__)
// NOLINTBEGIN(portability-simd-intrinsics): other processors use memcpy.
__attribute__((target("avx2"))) void StreamPiece(std::byte* to, const std::byte* from,
                                                 size_t bytes) {
  for (size_t i = 0; i < bytes; i += 2 * sizeof(__m256i)) {
    const auto* const in = reinterpret_cast<const __m256i*>(from + i);
    auto* const out = reinterpret_cast<__m256i*>(to + i);
    _mm256_stream_si256(out, _mm256_loadu_si256(in));
    _mm256_stream_si256(out + 1, _mm256_loadu_si256(in + 1));
  }
}
// NOLINTEND(portability-simd-intrinsics)
#endif

}  // namespace

void StreamingCopy(std::span<const Piece> to, std::span<const ConstPiece> from) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    for (size_t i = 0; i < to.size(); ++i) {
      StreamPiece(to[i].data(), from[i].data(), from[i].size());
    }
    _mm_sfence();
    return;
  }
#endif
  for (size_t i = 0; i < to.size(); ++i) std::memcpy(to[i].data(), from[i].data(), from[i].size());
}

}  // namespace kvtier::bench
