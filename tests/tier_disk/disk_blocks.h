// Makes blocks for the disk tier's tests: each number always gives the same key and content.
#ifndef KVTIER_TESTS_TIER_DISK_DISK_BLOCKS_H_
#define KVTIER_TESTS_TIER_DISK_DISK_BLOCKS_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/block_proof.h"
#include "tests/testing/blocks.h"
#include "tier_disk/cipher/disk_identity.h"
#include "tier_disk/io/page_buffer.h"

namespace kvtier::testing {

// Returns the id whose digits are `hi` and `lo`.
inline DiskId TestDiskId(uint64_t hi, uint64_t lo) {
  DiskId id;
  for (size_t i = 0; i < 8; ++i) {
    id.bytes[i] = static_cast<uint8_t>(hi >> (56 - 8 * i));
    id.bytes[8 + i] = static_cast<uint8_t>(lo >> (56 - 8 * i));
  }
  return id;
}

inline constexpr uint64_t kDiskTenant = 7;  // Seed of the contents.

inline BlockKey DiskKey(uint64_t number) {
  static const BlockNamer namer(TenantKey::FromSecret("disk"), TestSpace(4096).Digest());
  return namer.Name(TestEngineKey(number));
}

// Returns a slot with the payload of block `number`.
inline PageBuffer DiskPayload(uint64_t number, uint64_t length) {
  PageBuffer slot(length);
  std::fill(slot.bytes().begin(), slot.bytes().end(), std::byte{0});
  FillBlock(kDiskTenant, TestEngineKey(number), slot.bytes().first(length));
  return slot;
}

inline BlockMeta MakeDiskBlock(uint64_t number, uint64_t length,
                               std::optional<uint64_t> parent = std::nullopt) {
  PageBuffer slot = DiskPayload(number, length);
  BlockMeta block{.key = DiskKey(number),
                  .space = TestSpace(length).Digest(),
                  .length = length,
                  .sum = SumPayload(slot.bytes().first(length))};
  if (parent) block.parent = DiskKey(*parent);
  return block;
}

inline bool HoldsDiskBlock(uint64_t number, uint64_t length, PageBuffer* slot) {
  return HoldsBlock(kDiskTenant, TestEngineKey(number), slot->bytes().first(length));
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TIER_DISK_DISK_BLOCKS_H_
