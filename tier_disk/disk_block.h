// Defines the facts that a disk keeps of a block besides its bytes, and the place of its record.
// The payload's sum, or the proof in its place where payloads are sealed, is in the record itself,
// where a reader finds it.
#ifndef KVTIER_TIER_DISK_DISK_BLOCK_H_
#define KVTIER_TIER_DISK_DISK_BLOCK_H_

#include <cstdint>
#include <optional>

#include "core/block_key.h"
#include "core/block_proof.h"
#include "core/tenant_tag.h"
#include "tier_disk/io/disk.h"

namespace kvtier {

// Number of the tenant key that seals a record (record_cipher.h). It does not reveal the tenant.
// Zero: none, the payload is in the clear.
enum class KeyId : uint64_t {};

struct DiskBlock {
  BlockKey key;
  std::optional<BlockKey> parent;
  SpaceDigest space;
  uint64_t length = 0;  // Payload bytes.
  TenantTag owner{};    // Tenant that put the block.
  KeyId key_id{};
  friend bool operator==(const DiskBlock&, const DiskBlock&) = default;
};

inline DiskBlock DiskBlockOf(const BlockMeta& meta, TenantTag owner, KeyId key_id = KeyId{}) {
  return {.key = meta.key,
          .parent = meta.parent,
          .space = meta.space,
          .length = meta.length,
          .owner = owner,
          .key_id = key_id};
}

// Place of one record. The generation tells this use of the segment from earlier ones: two places
// hold the same bytes only if all three fields agree.
struct RecordPlace {
  SegmentId segment{};
  uint64_t generation = 0;
  uint64_t offset = 0;  // Offset of the record's header in the segment.
  friend bool operator==(const RecordPlace&, const RecordPlace&) = default;
};

// Entry of a block in the index and the manifest of its disk.
struct DiskEntry {
  DiskBlock block;
  RecordPlace place;
  friend bool operator==(const DiskEntry&, const DiskEntry&) = default;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_DISK_BLOCK_H_
