// Bytes prove their identity (law 3). Each block has a PayloadSum, which is taken over its bytes at
// commit. A copy on a disk also has a checksum that binds this sum to the block's key, space,
// length and place (tier_disk/log/record.h), and a copy on its way between agents has a BlockProof.
//
// XXH3 (xxhash 0.8, 128 bit); detects damage, does not resist forgery: an adversary is kept out by
// BlockKey, by file modes, and by the keys of BlockProof and of encrypted disks.
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

PayloadSum SumPayload(std::span<const std::byte> payload);

// Returns whether `payload` is the one of `length` bytes that `sum` was taken over. Errors:
// kDataLoss, naming what differs (length, payload) and the block's key. The one gate through which
// bytes from disk or a peer pass.
absl::Status VerifyPayload(const BlockKey& key, uint64_t length, const PayloadSum& sum,
                           std::span<const std::byte> payload);

}  // namespace kvtier

#endif  // KVTIER_CORE_CHECKSUM_H_
