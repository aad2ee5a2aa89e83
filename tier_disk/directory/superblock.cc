#include "tier_disk/directory/superblock.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/checksum.h"
#include "core/space.h"
#include "core/status_macros.h"
#include "tier_disk/directory/segment_files.h"

namespace kvtier {
namespace {

static_assert(std::endian::native == std::endian::little, "pages are copied as they lie");

constexpr uint64_t kMagic = 0x736b73696474766b;  // Bytes "kvtdisks".
constexpr uint32_t kFewestSegments = 2;

// Layout of the whole page. Integers are little-endian. Changing any field or meaning requires a
// new kDiskLayoutVersion, unless a feature bit says it; the fields marked "fixed" never move.
struct PageLayout {
  uint64_t magic;      // Fixed.
  uint32_t version;    // Fixed.
  uint32_t alignment;  // Alignment of records and I/O: kBlockAlignment.
  uint64_t sequence;   // Fixed.
  uint8_t disk[16];
  uint8_t incarnation[16];
  uint64_t segment_bytes;
  uint32_t segment_count;
  uint32_t zero;
  int64_t created_us;  // Microseconds since 1970.
  uint64_t incompatible;
  uint64_t compatible;
  uint64_t key_check;     // Zero unless kFeatureEncrypted.
  uint8_t padding[3976];  // Zero.
  uint64_t sum_hi;        // Fixed: XXH3-128 of all of the above.
  uint64_t sum_lo;
};
static_assert(std::is_trivially_copyable_v<PageLayout>);
static_assert(sizeof(PageLayout) == kSuperblockBytes);
static_assert(offsetof(PageLayout, version) == 8);
static_assert(offsetof(PageLayout, alignment) == 12);
static_assert(offsetof(PageLayout, sequence) == 16);
static_assert(offsetof(PageLayout, disk) == 24);
static_assert(offsetof(PageLayout, incarnation) == 40);
static_assert(offsetof(PageLayout, segment_bytes) == 56);
static_assert(offsetof(PageLayout, segment_count) == 64);
static_assert(offsetof(PageLayout, created_us) == 72);
static_assert(offsetof(PageLayout, incompatible) == 80);
static_assert(offsetof(PageLayout, compatible) == 88);
static_assert(offsetof(PageLayout, key_check) == 96);
static_assert(offsetof(PageLayout, padding) == 104);
static_assert(offsetof(PageLayout, sum_hi) == 4080);

PayloadSum SumOf(const PageLayout& page) {
  return SumPayload(std::as_bytes(std::span(&page, 1)).first(offsetof(PageLayout, sum_hi)));
}

// Returns the page of a copy whose sum is right; nullopt: it is damaged.
std::optional<PageLayout> SummedPage(std::span<const std::byte> file, SuperblockCopy copy) {
  const uint64_t offset = OffsetOf(copy);
  if (file.size() < offset + kSuperblockBytes) return std::nullopt;
  PageLayout page;
  std::memcpy(&page, file.data() + offset, sizeof(page));
  if (SumOf(page) != PayloadSum{.hi = page.sum_hi, .lo = page.sum_lo}) return std::nullopt;
  return page;
}

// Returns the page of a copy whose sum and magic are right.
std::optional<PageLayout> ProvenPage(std::span<const std::byte> file, SuperblockCopy copy) {
  const std::optional<PageLayout> page = SummedPage(file, copy);
  return page && page->magic == kMagic ? page : std::nullopt;
}

// Returns why neither copy is valid.
absl::Status NoCopyCounts(std::span<const std::byte> file) {
  for (const SuperblockCopy copy : {SuperblockCopy::kA, SuperblockCopy::kB}) {
    if (const std::optional<PageLayout> page = SummedPage(file, copy)) {
      return absl::DataLossError(
          absl::StrCat("another build made the disk: its superblock has magic 0x",
                       absl::Hex(page->magic), ", this program's is 0x", absl::Hex(kMagic)));
    }
  }
  return absl::DataLossError("both copies of the superblock are damaged");
}

bool AllZero(std::span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

bool Valid(const DiskGeometry& geometry) {
  return geometry.segment_bytes > 0 && geometry.segment_bytes % kBlockAlignment == 0 &&
         geometry.segment_count >= kFewestSegments && geometry.segment_count <= kMaxSegments;
}

absl::Status Contradiction(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the superblock is not valid: ", what));
}

// Decodes a proven page of this version. Features are checked before the fields, which they may
// change.
absl::StatusOr<Superblock> Interpret(const PageLayout& page) {
  if (const uint64_t unknown = page.incompatible & ~kKnownIncompatibleFeatures; unknown != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the disk has features 0x", absl::Hex(unknown),
                     " that this program does not know; it knows 0x",
                     absl::Hex(kKnownIncompatibleFeatures), ", so start the newer program"));
  }
  if (page.alignment != kBlockAlignment) {
    return absl::FailedPreconditionError(absl::StrCat("the disk is aligned to ", page.alignment,
                                                      " bytes, and this program aligns to ",
                                                      kBlockAlignment));
  }
  const bool encrypted = (page.incompatible & kFeatureEncrypted) != 0;
  const DiskGeometry geometry{.segment_bytes = page.segment_bytes,
                              .segment_count = page.segment_count};
  if (AllZero(page.disk) || AllZero(page.incarnation)) return Contradiction("an id is zero");
  if (page.sequence == 0) return Contradiction("sequence 0");
  if (!encrypted && page.key_check != 0) return Contradiction("a key check without encryption");
  if (page.zero != 0 || !AllZero(page.padding)) return Contradiction("its padding is not zero");
  if (!Valid(geometry)) {
    return Contradiction(
        absl::StrCat(geometry.segment_count, " segments of ", geometry.segment_bytes, " bytes"));
  }
  Superblock superblock{.sequence = page.sequence,
                        .geometry = geometry,
                        .created = absl::FromUnixMicros(page.created_us),
                        .compatible = page.compatible};
  std::copy(std::begin(page.disk), std::end(page.disk), superblock.identity.disk.bytes.begin());
  std::copy(std::begin(page.incarnation), std::end(page.incarnation),
            superblock.identity.incarnation.bytes.begin());
  if (encrypted) superblock.key_check = page.key_check;
  return superblock;
}

}  // namespace

void EncodeSuperblock(const Superblock& superblock, std::span<std::byte, kSuperblockBytes> page) {
  const DiskIdentity& identity = superblock.identity;
  KVT_CHECK(identity.disk != DiskId{} && identity.incarnation != IncarnationId{});
  KVT_CHECK(superblock.sequence > 0 && Valid(superblock.geometry));
  PageLayout layout{.magic = kMagic,
                    .version = kDiskLayoutVersion,
                    .alignment = kBlockAlignment,
                    .sequence = superblock.sequence,
                    .segment_bytes = superblock.geometry.segment_bytes,
                    .segment_count = superblock.geometry.segment_count,
                    .created_us = absl::ToUnixMicros(superblock.created),
                    .incompatible = superblock.key_check ? kFeatureEncrypted : 0,
                    .compatible = superblock.compatible,
                    .key_check = superblock.key_check.value_or(0)};
  std::copy(identity.disk.bytes.begin(), identity.disk.bytes.end(), layout.disk);
  std::copy(identity.incarnation.bytes.begin(), identity.incarnation.bytes.end(),
            layout.incarnation);
  const PayloadSum sum = SumOf(layout);
  layout.sum_hi = sum.hi;
  layout.sum_lo = sum.lo;
  std::memcpy(page.data(), &layout, sizeof(layout));
}

std::array<std::byte, kSuperblockFileBytes> EncodeSuperblockFile(const Superblock& superblock) {
  std::array<std::byte, kSuperblockFileBytes> file;
  const std::span<std::byte, kSuperblockFileBytes> pages(file);
  EncodeSuperblock(superblock, pages.first<kSuperblockBytes>());
  EncodeSuperblock(superblock, pages.last<kSuperblockBytes>());
  return file;
}

absl::StatusOr<DecodedSuperblock> DecodeSuperblock(std::span<const std::byte> file) {
  if (file.empty()) return DecodedSuperblock{};
  const std::optional<PageLayout> a = ProvenPage(file, SuperblockCopy::kA);
  const std::optional<PageLayout> b = ProvenPage(file, SuperblockCopy::kB);
  if (!a && !b) return NoCopyCounts(file);
  const bool differ = !a || !b || std::memcmp(&*a, &*b, sizeof(PageLayout)) != 0;
  if (a && b && differ && a->sequence == b->sequence) {
    return Contradiction(absl::StrCat("two copies of sequence ", a->sequence, " differ"));
  }
  const bool a_counts = a && (!b || a->sequence >= b->sequence);
  const PageLayout& newest = a_counts ? *a : *b;
  DecodedSuperblock decoded{.write_first = a_counts ? SuperblockCopy::kB : SuperblockCopy::kA,
                            .copies_differ = differ};
  if (newest.version == 0) return Contradiction("layout version 0");
  if (newest.version > kDiskLayoutVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the disk has layout version ", newest.version, ", this program reads up to version ",
        kDiskLayoutVersion, "; start the newer program"));
  }
  KVT_ASSIGN_OR_RETURN(decoded.superblock, Interpret(newest));
  return decoded;
}

absl::Status CheckGeometry(const Superblock& superblock, const DiskGeometry& configured) {
  const DiskGeometry& found = superblock.geometry;
  if (found.segment_bytes != configured.segment_bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("segment_bytes: the disk has segments of ", found.segment_bytes,
                     " bytes, configured are ", configured.segment_bytes));
  }
  if (found.segment_count != configured.segment_count) {
    return absl::FailedPreconditionError(absl::StrCat("segment_count: the disk has ",
                                                      found.segment_count, ", configured are ",
                                                      configured.segment_count));
  }
  return absl::OkStatus();
}

}  // namespace kvtier
