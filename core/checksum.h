// Bytes prove their identity (law 3). Each block has a PayloadSum, which is taken over its bytes at
// commit. Each copy that is stored or sent also has a Seal, which binds that sum to the identity
// that the copy must have there: key, space, length and generation. There are two steps, because
// the payload is hashed once at commit while its generation changes with each place that it is
// written to.
//
// XXH3 (xxhash 0.8, 64 and 128 bit); detects damage, does not resist forgery:
// an adversary with write access is kept out by BlockKey and by file modes.
#ifndef KVTIER_CORE_CHECKSUM_H_
#define KVTIER_CORE_CHECKSUM_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "core/block_key.h"

namespace kvtier {

// XXH3-128 of the payload.
struct PayloadSum {
  uint64_t hi = 0;
  uint64_t lo = 0;
  friend bool operator==(const PayloadSum&, const PayloadSum&) = default;
};

// Facts that a block must match at the place it is read from. `generation` is the
// segment's on disk, and 0 on the wire between peers.
struct BlockIdentity {
  BlockKey key;
  SpaceDigest space;
  uint64_t length = 0;      // Payload bytes.
  uint64_t generation = 0;  // Generation of the place.
};

PayloadSum SumPayload(std::span<const std::byte> payload);

// Returns XXH3-64 over identity and sum, field by field in little-endian order.
uint64_t Seal(const BlockIdentity& identity, const PayloadSum& sum);

// Proves that `payload` is the block `identity`, given the sum and the seal that
// were stored beside it. Errors: kDataLoss, naming what differs (length, seal,
// payload) and the key. The one gate through which bytes from disk or a peer pass.
absl::Status VerifyBlock(const BlockIdentity& identity, const PayloadSum& sum, uint64_t seal,
                         std::span<const std::byte> payload);

}  // namespace kvtier

#endif  // KVTIER_CORE_CHECKSUM_H_
