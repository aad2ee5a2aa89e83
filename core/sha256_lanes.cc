#include "core/sha256_lanes.h"

#include <cstddef>

#include "core/check.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace kvtier {

#if defined(__x86_64__)

namespace {

// The 64 constants of FIPS 180-4, four a group of rounds.
alignas(16) constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
constexpr size_t kGroups = 16;

// Takes a block into each of `kLanes` states. The instructions want the state as (a,b,e,f) and
// (c,d,g,h), highest word first.
template <int kLanes>
__attribute__((target("sha,sse4.1"))) void CompressLanes(Sha256State* states,
                                                         const Sha256Block* blocks) {
  const __m128i to_big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i abef[kLanes];
  __m128i cdgh[kLanes];
  __m128i words[kLanes][4];  // The latest 16 words of the message schedule.
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto* const state = reinterpret_cast<const __m128i*>(states[lane].data());
    const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(state), 0xb1);
    const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(state + 1), 0x1b);
    abef[lane] = _mm_alignr_epi8(cdab, efgh, 8);
    cdgh[lane] = _mm_blend_epi16(efgh, cdab, 0xf0);
  }
#pragma GCC unroll 16
  for (size_t group = 0; group < kGroups; ++group) {
    const __m128i constants =
        _mm_load_si128(reinterpret_cast<const __m128i*>(&kRoundConstants[4 * group]));
#pragma GCC unroll 2
    for (int lane = 0; lane < kLanes; ++lane) {
      __m128i& now = words[lane][group % 4];
      if (group < 4) {
        const auto* const block = reinterpret_cast<const __m128i*>(blocks[lane].data());
        now = _mm_shuffle_epi8(_mm_loadu_si128(block + group), to_big_endian);
      } else {
        const __m128i latest = words[lane][(group + 3) % 4];
        const __m128i seven_back = _mm_alignr_epi8(latest, words[lane][(group + 2) % 4], 4);
        now = _mm_sha256msg1_epu32(now, words[lane][(group + 1) % 4]);
        now = _mm_sha256msg2_epu32(_mm_add_epi32(now, seven_back), latest);
      }
      const __m128i added = _mm_add_epi32(now, constants);
      cdgh[lane] = _mm_sha256rnds2_epu32(cdgh[lane], abef[lane], added);
      abef[lane] = _mm_sha256rnds2_epu32(abef[lane], cdgh[lane], _mm_shuffle_epi32(added, 0x0e));
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    auto* const state = reinterpret_cast<__m128i*>(states[lane].data());
    const __m128i feba = _mm_shuffle_epi32(abef[lane], 0x1b);
    const __m128i dchg = _mm_shuffle_epi32(cdgh[lane], 0xb1);
    const __m128i abcd = _mm_blend_epi16(feba, dchg, 0xf0);
    const __m128i efgh = _mm_alignr_epi8(dchg, feba, 8);
    _mm_storeu_si128(state, _mm_add_epi32(_mm_loadu_si128(state), abcd));
    _mm_storeu_si128(state + 1, _mm_add_epi32(_mm_loadu_si128(state + 1), efgh));
  }
}

}  // namespace

bool Sha256Lanes::Supported() {
  // The compiler's own test knows no SHA bit before gcc 14.
  static const bool supported = [] {
    constexpr unsigned kShaBit = 1U << 29;
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __builtin_cpu_supports("sse4.1") != 0 &&
           __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & kShaBit) != 0;
  }();
  return supported;
}

void Sha256Lanes::Compress(std::array<Sha256State, 2>* states,
                           const std::array<Sha256Block, 2>& blocks) {
  CompressLanes<2>(states->data(), blocks.data());
}

void Sha256Lanes::Compress(Sha256State* state, const Sha256Block& block) {
  CompressLanes<1>(state, &block);
}

#else

bool Sha256Lanes::Supported() { return false; }

void Sha256Lanes::Compress(std::array<Sha256State, 2>*, const std::array<Sha256Block, 2>&) {
  KVT_CHECK(false);
}

void Sha256Lanes::Compress(Sha256State*, const Sha256Block&) { KVT_CHECK(false); }

#endif

}  // namespace kvtier
