// BlockProof is what a sender says a block is, beside its bytes: enough for the
// receiver to verify and publish it without asking anybody else.
#ifndef KVTIER_CORE_BLOCK_PROOF_H_
#define KVTIER_CORE_BLOCK_PROOF_H_

#include <cstdint>
#include <optional>

#include "core/block_key.h"
#include "core/checksum.h"

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

struct BlockProof {
  SpaceDigest space;
  uint64_t length = 0;  // Payload bytes.
  PayloadSum sum;
  uint64_t seal = 0;  // Over (key, space, length, generation 0) and sum.
  std::optional<BlockKey> parent;
};

// Returns the proof that travels with `meta`'s bytes.
inline BlockProof ProofOf(const BlockMeta& meta) {
  const BlockIdentity identity{.key = meta.key, .space = meta.space, .length = meta.length};
  return {.space = meta.space,
          .length = meta.length,
          .sum = meta.sum,
          .seal = Seal(identity, meta.sum),
          .parent = meta.parent};
}

}  // namespace kvtier

#endif  // KVTIER_CORE_BLOCK_PROOF_H_
