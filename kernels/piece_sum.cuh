// Holds the device half of payload sums: warps move a payload piece by piece and store what each
// piece adds to the state; then eight threads for each payload carry the state through the pieces.
#ifndef KVTIER_KERNELS_PIECE_SUM_CUH_
#define KVTIER_KERNELS_PIECE_SUM_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/device_launch.cuh"
#include "kernels/payload_sum.h"
#include "kernels/xxh3_lanes.h"

namespace kvtier::kernels {

// Loads and stores are 16-byte words. A piece takes a warp two rounds: lane l has word l, which is
// a quarter of a stripe, and word l + 32.
inline constexpr uint32_t kPieceRounds = 2;
inline constexpr uint32_t kWordBytes = 16;
inline constexpr uint32_t kPieceWords = kXxh3PieceBytes / kWordBytes;
inline constexpr uint32_t kStripeWords = kXxh3StripeBytes / kWordBytes;
// Number of pieces that a warp has in flight: 2 KiB, 64 bytes a lane.
inline constexpr uint32_t kPiecesHeld = 2;
inline constexpr uint32_t kWordsHeld = kPiecesHeld * kPieceRounds;

__constant__ uint64_t kDeviceSecret[kXxh3SecretWords] = KVTIER_XXH3_SECRET;
__constant__ uint64_t kDeviceStart[kXxh3Lanes] = KVTIER_XXH3_START;

// Two 64-bit words of XXH3 in a lane, or what they add to two lanes of the state.
struct WordPair {
  uint64_t even = 0;
  uint64_t odd = 0;
};

__device__ inline WordPair PairOf(uint4 word) {
  return {word.x | uint64_t{word.y} << 32, word.z | uint64_t{word.w} << 32};
}

// Secret words of a lane for its words of a piece, by round. They differ between lanes, and
// constant memory serves one address at a time, so they are loaded once.
struct LaneSecrets {
  WordPair of[kPieceRounds];
};

__device__ inline LaneSecrets SecretsOfLane() {
  LaneSecrets secrets;
#pragma unroll
  for (uint32_t round = 0; round < kPieceRounds; ++round) {
    const uint32_t stripe = LaneOfWarp() / kStripeWords + round * (kWarpLanes / kStripeWords);
    const uint64_t* const words = kDeviceSecret + stripe + 2 * (LaneOfWarp() % kStripeWords);
    secrets.of[round] = {words[0], words[1]};
  }
  return secrets;
}

__device__ inline void AddWords(WordPair words, WordPair secret, WordPair& sums) {
  sums.even += words.odd + Xxh3Product(words.even, secret.even);
  sums.odd += words.even + Xxh3Product(words.odd, secret.odd);
}

// Returns the sum over all lanes of the warp that have the same two lanes of the state. All lanes
// of the warp must call it.
__device__ inline WordPair SumOverStripes(WordPair sums) {
#pragma unroll
  for (uint32_t other = kStripeWords; other < kWarpLanes; other *= 2) {
    sums.even += __shfl_xor_sync(kAllLanes, sums.even, other);
    sums.odd += __shfl_xor_sync(kAllLanes, sums.odd, other);
  }
  return sums;
}

// Stores the result of SumOverStripes: 64 bytes, by four lanes.
__device__ inline void StoreSums(WordPair sums, LaneSums* piece) {
  const uint32_t lane = LaneOfWarp();
  if (lane < kStripeWords) {
    *reinterpret_cast<ulonglong2*>(&piece->lanes[2 * lane]) = {sums.even, sums.odd};
  }
}

// A payload is a type with
//   bytes()                its length, below 4 GiB
//   Place                  source and destination of one 16-byte word
//   PlacesOf(word, places) places of the words `word`, `word` + 32 and so on
//   Load(place, count)     the word; bytes from `count` on, where it is cut, are zero
//   Store(place, value, count)
//   ByteAt(offset)         a single byte
// AddLastStripe adds the last 64 bytes of the payload, wherever they begin.
template <typename Payload>
__device__ void AddLastStripe(const Payload& payload, WordPair& sums) {
  const uint32_t lane = LaneOfWarp() % kStripeWords;
  const uint32_t from = payload.bytes() - kXxh3StripeBytes + lane * kWordBytes;
  WordPair words;
  for (uint32_t i = 0; i < kWordBytes; ++i) {
    const uint64_t byte = payload.ByteAt(from + i);
    if (i < 8) {
      words.even |= byte << 8 * i;
    } else {
      words.odd |= byte << 8 * (i - 8);
    }
  }
  const uint32_t secret = kXxh3LastSecret + lane * kWordBytes;
  AddWords(words, {Xxh3Secret(kDeviceSecret, secret), Xxh3Secret(kDeviceSecret, secret + 8)}, sums);
}

// Moves kPiecesHeld pieces of the payload from `first` on, or as many as there are. With kSummed,
// and if `pieces` is not null, it stores the LaneSums of each piece there. All lanes of the warp
// must call it.
template <bool kSummed, typename Payload>
__device__ void MoveHeld(const Payload& payload, uint32_t first, const LaneSecrets& secrets,
                         LaneSums* pieces) {
  const uint32_t bytes = payload.bytes();
  const uint32_t from = first * kPieceWords + LaneOfWarp();
  typename Payload::Place places[kWordsHeld];
  payload.PlacesOf(from, places);
  uint4 held[kWordsHeld];
  uint32_t counts[kWordsHeld];
  // All loads come before all stores.
#pragma unroll
  for (uint32_t i = 0; i < kWordsHeld; ++i) {
    const uint32_t begin = (from + i * kWarpLanes) * kWordBytes;
    const uint32_t left = begin < bytes ? bytes - begin : 0;
    counts[i] = left < kWordBytes ? left : kWordBytes;
    held[i] = {0, 0, 0, 0};
    if (left > 0) held[i] = payload.Load(places[i], counts[i]);
  }
#pragma unroll
  for (uint32_t i = 0; i < kWordsHeld; ++i) {
    if (counts[i] > 0) payload.Store(places[i], held[i], counts[i]);
  }
  if constexpr (kSummed) {
    if (pieces == nullptr) return;  // All lanes agree, here and below.
    const auto piece_count = static_cast<uint32_t>(PiecesOf(bytes));
#pragma unroll
    for (uint32_t j = 0; j < kPiecesHeld; ++j) {
      const uint32_t piece = first + j;
      if (piece >= piece_count) continue;
      WordPair sums;
      if (piece + 1 < piece_count) {
#pragma unroll
        for (uint32_t i = 0; i < kPieceRounds; ++i) {
          AddWords(PairOf(held[j * kPieceRounds + i]), secrets.of[i], sums);
        }
        sums = SumOverStripes(sums);
      } else {
        const uint32_t stripes = (bytes - 1 - piece * kXxh3PieceBytes) / kXxh3StripeBytes;
#pragma unroll
        for (uint32_t i = 0; i < kPieceRounds; ++i) {
          const uint32_t stripe = (LaneOfWarp() + i * kWarpLanes) / kStripeWords;
          if (stripe < stripes) {
            AddWords(PairOf(held[j * kPieceRounds + i]), secrets.of[i], sums);
          }
        }
        sums = SumOverStripes(sums);
        AddLastStripe(payload, sums);
      }
      StoreSums(sums, &pieces[piece]);
    }
  }
}

// Number of pieces whose sums are loaded while the state is carried through as many earlier ones.
inline constexpr uint32_t kSumsAhead = 16;

// Loads sums from the L2 cache, because other thread blocks wrote them.
__device__ inline void LoadSums(const LaneSums* pieces, uint32_t lane,
                                uint64_t (&sums)[kSumsAhead]) {
#pragma unroll
  for (uint32_t k = 0; k < kSumsAhead; ++k) sums[k] = __ldcg(&pieces[k].lanes[lane]);
}

__device__ inline uint64_t StirAll(uint64_t state, const uint64_t (&sums)[kSumsAhead],
                                   uint64_t stir) {
#pragma unroll
  for (uint32_t k = 0; k < kSumsAhead; ++k) state = Xxh3Stir(state + sums[k], stir);
  return state;
}

// Carries a lane of the state through `count` pieces of a payload, which are all but the last. Two
// sets of sums alternate: moving one to the other would wait for the loads in progress.
__device__ inline uint64_t CarryLane(const LaneSums* pieces, uint32_t count, uint32_t lane,
                                     uint64_t stir) {
  uint64_t state = kDeviceStart[lane];
  const uint32_t whole = count / (2 * kSumsAhead) * (2 * kSumsAhead);
  uint64_t even[kSumsAhead];
  uint64_t odd[kSumsAhead];
  if (whole > 0) LoadSums(pieces, lane, even);
  for (uint32_t piece = 0; piece < whole; piece += 2 * kSumsAhead) {
    LoadSums(pieces + piece + kSumsAhead, lane, odd);
    state = StirAll(state, even, stir);
    const uint32_t next = piece + 2 * kSumsAhead;
    LoadSums(pieces + (next < whole ? next : piece), lane, even);
    state = StirAll(state, odd, stir);
  }
  for (uint32_t piece = whole; piece < count; ++piece) {
    state = Xxh3Stir(state + __ldcg(&pieces[piece].lanes[lane]), stir);
  }
  return state;
}

// Carries the state of each of `count` payloads through its pieces, with eight threads for each
// payload and four payloads for each warp. Lengths::BytesOf(i) returns the number of bytes that
// were summed, 0 for none. All threads of a thread block of `kBlockThreads` must call it.
template <uint32_t kBlockThreads, typename Lengths>
__device__ void FinishSums(const Lengths& lengths, const SumRequest& request, uint32_t count) {
  constexpr uint32_t kAtOnce = kWarpLanes / kXxh3Lanes;
  const uint32_t lane = threadIdx.x % kXxh3Lanes;
  const uint64_t stir = kDeviceSecret[kXxh3StirSecret / 8 + lane];
  for (uint32_t first = threadIdx.x / kWarpLanes * kAtOnce; first < count;
       first += kBlockThreads / kXxh3Lanes) {
    const uint32_t i = first + LaneOfWarp() / kXxh3Lanes;
    const uint64_t bytes = i < count ? lengths.BytesOf(i) : 0;
    const LaneSums* const pieces = request.pieces + uint64_t{i} * request.room;
    uint64_t state = kDeviceStart[lane];
    if (bytes > 0) {
      const auto last = static_cast<uint32_t>(PiecesOf(bytes) - 1);
      state = CarryLane(pieces, last, lane, stir) + __ldcg(&pieces[last].lanes[lane]);
    }
    uint64_t all[kXxh3Lanes];
    const uint32_t group = LaneOfWarp() / kXxh3Lanes * kXxh3Lanes;
#pragma unroll
    for (uint32_t k = 0; k < kXxh3Lanes; ++k) all[k] = __shfl_sync(kAllLanes, state, group + k);
    if (lane != 0 || i >= count) continue;
    request.sums[i] = bytes == 0 ? PayloadSum{}
                                 : PayloadSum{Xxh3High(all, kDeviceSecret, bytes),
                                              Xxh3Low(all, kDeviceSecret, bytes), bytes};
  }
}

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_PIECE_SUM_CUH_
