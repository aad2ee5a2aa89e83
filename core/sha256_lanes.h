// Sha256Lanes hashes two messages beside each other on processors with SHA instructions, whose
// rounds wait for each other within one message: a pair costs little more than one alone. It
// works on states between blocks, which OpenSSL's supported interface does not show; where the
// processor has no such instructions, OpenSSL hashes message by message.
#ifndef KVTIER_CORE_SHA256_LANES_H_
#define KVTIER_CORE_SHA256_LANES_H_

#include <array>
#include <cstdint>

namespace kvtier {

// SHA-256 between two blocks (FIPS 180-4): the words a to h.
using Sha256State = std::array<uint32_t, 8>;
using Sha256Block = std::array<uint8_t, 64>;

// The state before the first block.
inline constexpr Sha256State kSha256Start = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

class Sha256Lanes {
 public:
  // Returns whether this processor has the instructions.
  static bool Supported();
  // Takes one block into each of two states. REQUIRES of both: Supported().
  static void Compress(std::array<Sha256State, 2>* states,
                       const std::array<Sha256Block, 2>& blocks);
  // Takes one block into one state.
  static void Compress(Sha256State* state, const Sha256Block& block);
};

}  // namespace kvtier

#endif  // KVTIER_CORE_SHA256_LANES_H_
