#include "core/stripe_form.h"

// Defines the library's loops and constants as inline functions of this file.
#define XXH_INLINE_ALL
#include <xxhash.h>
#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// gcc 12 warns of undefined values in its own header, where they are meant.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/check.h"

namespace kvtier {

namespace {

constexpr size_t kSecretBytes = sizeof(XXH3_kSecret);
// The key moves on by 8 bytes a stripe, until 16 stripes have used up the secret.
constexpr size_t kKeyStep = XXH_SECRET_CONSUME_RATE;
constexpr size_t kStripesPerScramble = (kSecretBytes - kStripeBytes) / kKeyStep;
constexpr size_t kScrambleKey = kSecretBytes - kStripeBytes;

const uint8_t* KeyOf(size_t stripe) {
  return XXH3_kSecret + stripe % kStripesPerScramble * kKeyStep;
}

// Returns whether the lanes are scrambled after this stripe.
bool EndsRound(size_t stripe) { return stripe % kStripesPerScramble == kStripesPerScramble - 1; }

// Copies the stripes between two scrambles and then sums them from the destination, which is in
// the cache.
void MovePlain(const std::byte* in, std::byte* out, size_t stripes, Stores /*stores*/,
               StripeSums* sums) {
  while (stripes > 0) {
    const size_t run = std::min(stripes, kStripesPerScramble);
    std::memcpy(out, in, run * kStripeBytes);
    for (size_t i = 0; i < run; ++i, ++sums->stripes) {
      XXH3_accumulate_512(sums->lanes.data(), out + i * kStripeBytes, KeyOf(sums->stripes));
      if (EndsRound(sums->stripes)) {
        XXH3_scrambleAcc(sums->lanes.data(), XXH3_kSecret + kScrambleKey);
      }
    }
    in += run * kStripeBytes;
    out += run * kStripeBytes;
    stripes -= run;
  }
}

#if defined(__x86_64__)

// The width of the streaming stores that a destination's alignment allows.
enum class StoreWidth { kCached, kStream16, kStreamWhole };

StoreWidth WidthFor(const std::byte* out, Stores stores) {
  const auto address = reinterpret_cast<uintptr_t>(out);
  if (stores == Stores::kCached || address % sizeof(__m128i) != 0) return StoreWidth::kCached;
  return address % sizeof(__m256i) == 0 ? StoreWidth::kStreamWhole : StoreWidth::kStream16;
}

// NOLINTBEGIN(portability-simd-intrinsics): other processors take the plain form.

template <StoreWidth width>
__attribute__((target("avx2"), always_inline)) inline void Store256(std::byte* out, __m256i x) {
  if constexpr (width == StoreWidth::kStreamWhole) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(out), x);
  } else if constexpr (width == StoreWidth::kStream16) {
    auto* to = reinterpret_cast<__m128i*>(out);
    _mm_stream_si128(to, _mm256_extracti128_si256(x, 0));
    _mm_stream_si128(to + 1, _mm256_extracti128_si256(x, 1));
  } else {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), x);
  }
}

// Returns `lanes` with half a stripe added, as XXH3_accumulate_512 does.
__attribute__((target("avx2"), always_inline)) inline __m256i Add256(__m256i lanes, __m256i x,
                                                                     const uint8_t* key) {
  const __m256i keyed =
      _mm256_xor_si256(x, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(key)));
  const __m256i product = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
  const __m256i swapped = _mm256_shuffle_epi32(x, _MM_SHUFFLE(1, 0, 3, 2));
  return _mm256_add_epi64(lanes, _mm256_add_epi64(product, swapped));
}

// Returns what XXH3_scrambleAcc makes of half of the lanes.
__attribute__((target("avx2"), always_inline)) inline __m256i Scramble256(__m256i lanes,
                                                                          const uint8_t* key) {
  const __m256i prime = _mm256_set1_epi64x(XXH_PRIME32_1);
  lanes = _mm256_xor_si256(lanes, _mm256_srli_epi64(lanes, 47));
  lanes = _mm256_xor_si256(lanes, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(key)));
  const __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(lanes, 32), prime);
  return _mm256_add_epi64(_mm256_mul_epu32(lanes, prime), _mm256_slli_epi64(high, 32));
}

template <StoreWidth width>
__attribute__((target("avx2"))) void Loop256(const std::byte* in, std::byte* out, size_t stripes,
                                             StripeSums* sums) {
  constexpr size_t half = sizeof(__m256i);
  auto* const state = reinterpret_cast<__m256i*>(sums->lanes.data());
  __m256i low = _mm256_load_si256(state);
  __m256i high = _mm256_load_si256(state + 1);
  const size_t end = sums->stripes + stripes;
  for (size_t stripe = sums->stripes; stripe < end; ++stripe) {
    __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in));
    __m256i y = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + half));
    // Keeps the compiler from reading memory again that another process may have changed.
    asm volatile("" : "+x"(x), "+x"(y));
    Store256<width>(out, x);
    Store256<width>(out + half, y);
    low = Add256(low, x, KeyOf(stripe));
    high = Add256(high, y, KeyOf(stripe) + half);
    if (EndsRound(stripe)) {
      low = Scramble256(low, XXH3_kSecret + kScrambleKey);
      high = Scramble256(high, XXH3_kSecret + kScrambleKey + half);
    }
    in += kStripeBytes;
    out += kStripeBytes;
  }
  _mm256_store_si256(state, low);
  _mm256_store_si256(state + 1, high);
  sums->stripes = end;
}

void Move256(const std::byte* in, std::byte* out, size_t stripes, Stores stores, StripeSums* sums) {
  switch (WidthFor(out, stores)) {
    case StoreWidth::kCached:
      return Loop256<StoreWidth::kCached>(in, out, stripes, sums);
    case StoreWidth::kStream16:
      return Loop256<StoreWidth::kStream16>(in, out, stripes, sums);
    case StoreWidth::kStreamWhole:
      return Loop256<StoreWidth::kStreamWhole>(in, out, stripes, sums);
  }
}

// NOLINTEND(portability-simd-intrinsics)

#endif

std::vector<StripeForm> FormsHere() {
  std::vector<StripeForm> forms;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) forms.push_back({"AVX2", Move256});
#endif
  forms.push_back({"plain", MovePlain});
  return forms;
}

}  // namespace

StripeSums::StripeSums() : lanes(XXH3_INIT_ACC) {}

std::span<const StripeForm> StripeForms() {
  static const std::vector<StripeForm> forms = FormsHere();
  return forms;
}

void FinishStores() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

PayloadSum FinishSum(StripeSums* sums, std::span<const std::byte, kStripeBytes> last,
                     size_t bytes) {
  KVT_CHECK(bytes > XXH3_MIDSIZE_MAX && sums->stripes == (bytes - 1) / kStripeBytes);
  uint64_t* const lanes = sums->lanes.data();
  XXH3_accumulate_512(lanes, last.data(), XXH3_kSecret + kScrambleKey - XXH_SECRET_LASTACC_START);
  const uint8_t* const low_key = XXH3_kSecret + XXH_SECRET_MERGEACCS_START;
  const uint8_t* const high_key = XXH3_kSecret + kScrambleKey - XXH_SECRET_MERGEACCS_START;
  return {.hi = XXH3_mergeAccs(lanes, high_key, ~(bytes * XXH_PRIME64_2)),
          .lo = XXH3_mergeAccs(lanes, low_key, bytes * XXH_PRIME64_1)};
}

}  // namespace kvtier
