// BlockMeta says what a block is. BlockProof says it to another agent, which can tell from it that
// an agent with the tenant's secret said so, and verifies and publishes the block without asking
// anybody else.
#ifndef KVTIER_CORE_BLOCK_PROOF_H_
#define KVTIER_CORE_BLOCK_PROOF_H_

#include <array>
#include <cstdint>
#include <optional>

#include "core/block_key.h"
#include "core/checksum.h"
#include "core/peer_name.h"

namespace kvtier {

// BlockMeta is what the index of a node knows of a block besides where its bytes are.
struct BlockMeta {
  BlockKey key;
  std::optional<BlockKey> parent;  // The block before it in its prefix; none: a root.
  SpaceDigest space;
  uint64_t length = 0;  // Payload bytes.
  PayloadSum sum;       // Sum of the payload, taken at commit.
  friend bool operator==(const BlockMeta&, const BlockMeta&) = default;
};

// First half of an HMAC-SHA-256.
using PeerMac = std::array<uint8_t, 16>;

// BlockProof travels with a block's bytes from one agent to another. PeerNamer makes and checks it.
struct BlockProof {
  SpaceDigest space;
  uint64_t length = 0;  // Payload bytes.
  PayloadSum sum;
  std::optional<PeerName> parent;
  PeerMac mac{};  // Over the block's key and all of the above.
};

}  // namespace kvtier

#endif  // KVTIER_CORE_BLOCK_PROOF_H_
