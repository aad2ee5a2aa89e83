// RecordCipher seals and opens the payloads of one tenant's records on one disk, in one process
// that has the disk open. docs/design/disk_encryption.md has the format, the key hierarchy and the
// argument why no nonce is used twice; in short:
//
//   key    is of (tenant, disk, incarnation, opening): new with every opening
//   nonce  is of (segment, generation, offset): new with every record of an opening
//
// so uniqueness needs nothing that a disk must remember. A sealed payload proves its identity and
// its place: at another place, or as another block, it does not open. A record that opens needs no
// other checksum.
//
// RecordCipher is a value type without pointers. Const methods may be called on any thread. It
// holds keys: a copy opens records as long as it lives, even if the tenant was erased meanwhile.
#ifndef KVTIER_TIER_DISK_CIPHER_RECORD_CIPHER_H_
#define KVTIER_TIER_DISK_CIPHER_RECORD_CIPHER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/block_key.h"
#include "tier_disk/cipher/aes_gcm.h"
#include "tier_disk/cipher/disk_identity.h"
#include "tier_disk/cipher/secret_key.h"
#include "tier_disk/disk_block.h"

namespace kvtier {

// Identity and place of a sealed payload: the associated data.
struct RecordIdentity {
  BlockKey key;
  SpaceDigest space;
  uint64_t length = 0;  // Payload bytes.
  RecordPlace place;
};

// Fields that a sealed record stores in the clear instead of its payload's sum. A sum would let a
// thief confirm a guess of the payload.
struct CipherProof {
  KeyId key_id{};
  OpeningId opening;
  GcmTag tag;
  friend bool operator==(const CipherProof&, const CipherProof&) = default;
};

// Largest generation that fits into a nonce. With segments of 1 MiB a disk reaches it after 2^68
// written bytes.
inline constexpr uint64_t kMaxCipherGeneration = (uint64_t{1} << 48) - 1;

// Returns segment:16 generation:48 page:32, big-endian. nullopt: the place does not fit (segment
// 65536 and above, a generation above kMaxCipherGeneration, an offset that is no page or lies
// beyond 16 TiB).
std::optional<GcmNonce> RecordNonce(const RecordPlace& place);

class RecordCipher {
 public:
  // Makes a cipher. `key` is the tenant's key on this incarnation of the disk. REQUIRES: `opening`
  // was drawn at random for the one SegmentLog whose places are sealed, and is not zero.
  RecordCipher(const SecretKey& key, KeyId key_id, const OpeningId& opening);

  // Fills `out` with the sealed payload, followed by zeroes. Call it once for a reserved place and
  // write the result, however often that takes: another payload sealed for the same place breaks
  // the law of the nonce. `payload` may be the beginning of `out`; otherwise they must not overlap.
  // REQUIRES: payload.size() == identity.length, which is not 0; out.size() ==
  // SlotBytes(identity.length). Errors: kFailedPrecondition, there is no nonce for the place (make
  // the disk again).
  absl::StatusOr<CipherProof> Seal(const RecordIdentity& identity,
                                   std::span<const std::byte> payload,
                                   std::span<std::byte> out) const;

  // Fills `out` with the proven payload of `sealed`; `out` may be `sealed`. Errors:
  // kFailedPrecondition, the proof names another key (TenantKeys::CipherToOpen finds its cipher),
  // `out` untouched; kDataLoss, bytes, proof or identity are not those that were sealed, `out`
  // wiped. REQUIRES: `out` is as long as `sealed`.
  absl::Status Open(const RecordIdentity& identity, const CipherProof& proof,
                    std::span<const std::byte> sealed, std::span<std::byte> out) const;

  KeyId key_id() const { return key_id_; }

 private:
  SecretKey key_;
  KeyId key_id_;
  OpeningId opening_;
  SecretKey opening_key_;  // Key of this opening; keys of earlier openings are derived as needed.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_CIPHER_RECORD_CIPHER_H_
