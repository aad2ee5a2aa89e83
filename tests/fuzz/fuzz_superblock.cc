// Feeds any bytes that a superblock file can hold: they are refused, or mean exactly what they say.
// The first byte chooses the kind of the rest.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/check.h"
#include "core/checksum.h"
#include "tier_disk/directory/superblock.h"

namespace kvtier {
namespace {

using File = std::array<std::byte, kSuperblockFileBytes>;

constexpr size_t kSumAt = kSuperblockBytes - 16;

// Checks that a file gives one of the header's statuses, or a superblock that, written back, is
// what was read.
void CheckFile(std::span<const std::byte> file) {
  const absl::StatusOr<DecodedSuperblock> decoded = DecodeSuperblock(file);
  if (!decoded.ok()) {
    KVT_CHECK(absl::IsDataLoss(decoded.status()) || absl::IsFailedPrecondition(decoded.status()));
    return;
  }
  KVT_CHECK(decoded->superblock.has_value() == !file.empty());
  if (!decoded->superblock) return;
  File page{};
  EncodeSuperblock(*decoded->superblock, std::span(page).first<kSuperblockBytes>());
  const uint64_t counts = kSuperblockBytes - OffsetOf(decoded->write_first);
  KVT_CHECK(std::equal(page.begin(), page.begin() + kSuperblockBytes,
                       file.begin() + static_cast<ptrdiff_t>(counts)));
}

// Checks raw bytes of any length.
void CheckRaw(std::span<const uint8_t> bytes) { CheckFile(std::as_bytes(bytes)); }

// Checks two copies with good sums (which no fuzzer finds by itself) over arbitrary fields: the
// first half of the bytes begins copy A, the rest copy B.
void CheckSummed(std::span<const uint8_t> bytes) {
  const std::span<const std::byte> fields = std::as_bytes(bytes);
  const size_t half = fields.size() / 2;
  File file{};
  for (const SuperblockCopy copy : {SuperblockCopy::kA, SuperblockCopy::kB}) {
    const std::span<const std::byte> from =
        copy == SuperblockCopy::kA ? fields.first(half) : fields.subspan(half);
    const std::span<std::byte> page =
        std::span<std::byte>(file).subspan(OffsetOf(copy), kSuperblockBytes);
    std::copy_n(from.begin(), std::min(from.size(), kSumAt), page.begin());
    const PayloadSum sum = SumPayload(page.first(kSumAt));
    std::memcpy(page.data() + kSumAt, &sum.hi, sizeof(sum.hi));
    std::memcpy(page.data() + kSumAt + sizeof(sum.hi), &sum.lo, sizeof(sum.lo));
  }
  CheckFile(file);
}

// Checks a whole file with one flipped bit, and then with a second one: the first two bytes say
// which bit, the next two which other one. The rest are the fields.
void CheckFlipped(std::span<const uint8_t> bytes) {
  std::array<uint8_t, 72> fields{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), fields.size()), fields.begin());
  std::array<uint16_t, 2> bits;
  std::memcpy(bits.data(), fields.data(), sizeof(bits));
  Superblock superblock{.geometry = {.segment_bytes = 1 << 20, .segment_count = 2}};
  std::copy_n(fields.data() + 4, 16, superblock.identity.disk.bytes.begin());
  std::copy_n(fields.data() + 20, 16, superblock.identity.incarnation.bytes.begin());
  superblock.identity.disk.bytes[0] |= 1;  // No id is zero.
  superblock.identity.incarnation.bytes[0] |= 1;
  std::memcpy(&superblock.compatible, fields.data() + 36, 8);
  std::memcpy(&superblock.sequence, fields.data() + 44, 8);
  superblock.sequence |= 1;
  if ((fields[52] & 1) != 0) superblock.key_check = fields[53];

  File file = EncodeSuperblockFile(superblock);
  KVT_CHECK(DecodeSuperblock(file)->superblock == superblock);
  file[bits[0] / 8] ^= std::byte{1} << (bits[0] % 8);
  const absl::StatusOr<DecodedSuperblock> one = DecodeSuperblock(file);
  KVT_CHECK(one.ok() && one->superblock == superblock && one->copies_differ);
  // Flips a bit in the other copy too: no copy is valid any more.
  const size_t other = (bits[1] + (bits[0] / 8 < kSuperblockBytes ? kSuperblockBytes * 8 : 0)) %
                       (kSuperblockFileBytes * 8);
  file[other / 8] ^= std::byte{1} << (other % 8);
  const bool both = (other / 8 < kSuperblockBytes) != (bits[0] / 8 < kSuperblockBytes);
  if (both) KVT_CHECK(absl::IsDataLoss(DecodeSuperblock(file).status()));
}

}  // namespace
}  // namespace kvtier

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const uint8_t> rest(data + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      kvtier::CheckRaw(rest);
      break;
    case 1:
      kvtier::CheckSummed(rest);
      break;
    default:
      kvtier::CheckFlipped(rest);
      break;
  }
  return 0;
}
