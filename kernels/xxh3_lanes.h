// Holds the arithmetic of XXH3 on inputs of more than 240 bytes, as of xxHash 0.8: what one 64-bit
// word adds to the state, how the state is stirred after a piece, and how the sum is made from the
// final state. Host and device forms of sums share it.
//
// An input is pieces of 16 stripes of 8 words. Word i of stripe n is added to lane i ^ 1. It is
// also xored with secret word n + i, and the product of the two halves of that is added to lane i.
// All of a piece is added before the state is stirred. The last piece has 1 to 1024 bytes: its
// stripes that end before its last byte are added, then the input's last 64 bytes with a secret of
// their own, and no stir follows.
#ifndef KVTIER_KERNELS_XXH3_LANES_H_
#define KVTIER_KERNELS_XXH3_LANES_H_

#include <cstdint>

#include "kernels/launch.h"

namespace kvtier::kernels {

inline constexpr uint32_t kXxh3Lanes = 8;
inline constexpr uint64_t kXxh3StripeBytes = 64;
inline constexpr uint64_t kXxh3PieceBytes = 1024;

// Offsets in the secret, in bytes.
inline constexpr uint32_t kXxh3StirSecret = 128;
inline constexpr uint32_t kXxh3LastSecret = 121;
inline constexpr uint32_t kXxh3LowSecret = 11;
inline constexpr uint32_t kXxh3HighSecret = 117;

inline constexpr uint32_t kXxh3Prime32A = 0x9e3779b1;
inline constexpr uint64_t kXxh3Prime64A = 0x9e3779b185ebca87;
inline constexpr uint64_t kXxh3Prime64B = 0xc2b2ae3d27d4eb4f;

// Initialisers of the state at the start, and of the secret as little-endian words. They are macros
// because device code cannot read a table of the host's.
#define KVTIER_XXH3_START                                                          \
  {0xc2b2ae3d,         0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9, \
   0x85ebca77c2b2ae63, 0x85ebca77,         0x27d4eb2f165667c5, 0x9e3779b1}
#define KVTIER_XXH3_SECRET                                                         \
  {0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072, \
   0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0, \
   0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938, \
   0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8, \
   0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3, \
   0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af}
inline constexpr uint32_t kXxh3SecretWords = 24;

KVTIER_HOST_DEVICE inline uint64_t Xxh3Secret(const uint64_t* secret, uint32_t byte) {
  const uint32_t shift = byte % 8 * 8;
  const uint64_t word = secret[byte / 8];
  return shift == 0 ? word : word >> shift | secret[byte / 8 + 1] << (64 - shift);
}

// Returns the product that `word` adds to its own lane.
KVTIER_HOST_DEVICE inline uint64_t Xxh3Product(uint64_t word, uint64_t secret) {
  const uint64_t mixed = word ^ secret;
  return (mixed & 0xffffffff) * (mixed >> 32);
}

KVTIER_HOST_DEVICE inline uint64_t Xxh3Stir(uint64_t lane, uint64_t secret) {
  return (lane ^ lane >> 47 ^ secret) * kXxh3Prime32A;
}

KVTIER_HOST_DEVICE inline uint64_t Xxh3Fold(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{a} * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Returns half of the sum. `at`: kXxh3LowSecret or kXxh3HighSecret.
KVTIER_HOST_DEVICE inline uint64_t Xxh3Merge(const uint64_t* state, const uint64_t* secret,
                                             uint32_t at, uint64_t start) {
  uint64_t sum = start;
  for (uint32_t i = 0; i < kXxh3Lanes; i += 2) {
    sum += Xxh3Fold(state[i] ^ Xxh3Secret(secret, at + 8 * i),
                    state[i + 1] ^ Xxh3Secret(secret, at + 8 * i + 8));
  }
  sum = (sum ^ sum >> 37) * 0x165667919e3779f9;
  return sum ^ sum >> 32;
}
KVTIER_HOST_DEVICE inline uint64_t Xxh3Low(const uint64_t* state, const uint64_t* secret,
                                           uint64_t bytes) {
  return Xxh3Merge(state, secret, kXxh3LowSecret, bytes * kXxh3Prime64A);
}
KVTIER_HOST_DEVICE inline uint64_t Xxh3High(const uint64_t* state, const uint64_t* secret,
                                            uint64_t bytes) {
  return Xxh3Merge(state, secret, kXxh3HighSecret, ~(bytes * kXxh3Prime64B));
}

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_XXH3_LANES_H_
