#include "tier_disk/record.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

static_assert(std::endian::native == std::endian::little, "headers are copied as they lie");

constexpr uint64_t kRecordMagic = 0x313063657274766b;  // The bytes "kvtrec01".

// The first bytes of the header page; the rest of it is zero. Integers are
// little-endian. A change of any field or meaning bumps kRecordVersion.
struct HeaderLayout {
  uint64_t magic;
  uint32_t version;
  uint32_t header_bytes;  // kRecordHeaderBytes: where the payload starts.
  uint64_t key_hi;
  uint64_t key_lo;
  uint8_t space[32];
  uint64_t length;
  uint64_t generation;
  uint64_t offset;
  uint32_t segment;
  uint32_t zero;
  uint64_t sum_hi;
  uint64_t sum_lo;
  uint64_t seal;  // Over all of the above.
};
static_assert(std::is_trivially_copyable_v<HeaderLayout>);
static_assert(sizeof(HeaderLayout) == 120);
static_assert(offsetof(HeaderLayout, version) == 8);
static_assert(offsetof(HeaderLayout, header_bytes) == 12);
static_assert(offsetof(HeaderLayout, key_hi) == 16);
static_assert(offsetof(HeaderLayout, space) == 32);
static_assert(offsetof(HeaderLayout, length) == 64);
static_assert(offsetof(HeaderLayout, generation) == 72);
static_assert(offsetof(HeaderLayout, segment) == 88);
static_assert(offsetof(HeaderLayout, sum_hi) == 96);
static_assert(offsetof(HeaderLayout, seal) == 112);

// The generation that takes part in seals and comparisons.
uint64_t CheckedGeneration(uint64_t generation) {
#ifdef KVTIER_PLANT_IGNORE_GENERATION
  generation = 0;
#endif
  return generation;
}

uint64_t SealOf(const HeaderLayout& layout) {
  const std::span<const HeaderLayout, 1> whole(&layout, 1);
  return SumPayload(std::as_bytes(whole).first(offsetof(HeaderLayout, seal))).lo;
}

absl::Status Damaged(const DiskEntry& expected, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("record of block ", expected.block.key.ToHex(), " in segment ",
                   static_cast<uint32_t>(expected.place.segment), " at ", expected.place.offset,
                   ", generation ", expected.place.generation, ": ", what));
}

// What of the header is not as index and manifest know it; empty: nothing.
std::string Difference(const RecordHeader& found, const DiskEntry& expected) {
  if (found.key != expected.block.key) return "holds block " + found.key.ToHex();
  if (!SameGeneration(found.place.generation, expected.place.generation)) {
    return absl::StrCat("is of generation ", found.place.generation);
  }
  if (found.place.segment != expected.place.segment ||
      found.place.offset != expected.place.offset) {
    return absl::StrCat("belongs in segment ", static_cast<uint32_t>(found.place.segment), " at ",
                        found.place.offset);
  }
  if (found.length != expected.block.length) return absl::StrCat("has length ", found.length);
  if (found.space != expected.block.space) return "is of space " + found.space.ToHex();
  return "";
}

}  // namespace

bool SameGeneration(uint64_t written, uint64_t segment) {
  return CheckedGeneration(written) == CheckedGeneration(segment);
}

void EncodeRecordHeader(const RecordHeader& header, std::span<std::byte, kRecordHeaderBytes> page) {
  HeaderLayout layout{.magic = kRecordMagic,
                      .version = kRecordVersion,
                      .header_bytes = kRecordHeaderBytes,
                      .key_hi = header.key.hi,
                      .key_lo = header.key.lo,
                      .length = header.length,
                      .generation = header.place.generation,
                      .offset = header.place.offset,
                      .segment = static_cast<uint32_t>(header.place.segment),
                      .sum_hi = header.sum.hi,
                      .sum_lo = header.sum.lo};
  std::copy(header.space.bytes.begin(), header.space.bytes.end(), layout.space);
  layout.seal = SealOf(layout);
  std::memcpy(page.data(), &layout, sizeof(layout));
  std::fill(page.begin() + sizeof(layout), page.end(), std::byte{0});
}

absl::StatusOr<RecordHeader> DecodeRecordHeader(
    std::span<const std::byte, kRecordHeaderBytes> page) {
  HeaderLayout layout;
  std::memcpy(&layout, page.data(), sizeof(layout));
  if (layout.magic != kRecordMagic) return absl::DataLossError("no record: wrong magic");
  if (layout.version != kRecordVersion) {
    return absl::DataLossError(
        absl::StrCat("record version ", layout.version, ", expected ", kRecordVersion));
  }
  if (layout.header_bytes != kRecordHeaderBytes) {
    return absl::DataLossError(absl::StrCat("record header of ", layout.header_bytes, " bytes"));
  }
  // Zero if its first byte is and every other is as the one before it: one memcmp().
  const auto padding = page.subspan<sizeof(HeaderLayout)>();
  if (padding.front() != std::byte{0} ||
      std::memcmp(padding.data(), padding.data() + 1, padding.size() - 1) != 0) {
    return absl::DataLossError("record header's padding is not zero");
  }
  if (layout.zero != 0 || layout.seal != SealOf(layout)) {
    return absl::DataLossError("record header does not match its own seal");
  }
  RecordHeader header{.key = {.hi = layout.key_hi, .lo = layout.key_lo},
                      .length = layout.length,
                      .place = {.segment = SegmentId{layout.segment},
                                .generation = layout.generation,
                                .offset = layout.offset},
                      .sum = {.hi = layout.sum_hi, .lo = layout.sum_lo}};
  std::copy(std::begin(layout.space), std::end(layout.space), header.space.bytes.begin());
  return header;
}

absl::StatusOr<PayloadSum> VerifyRecord(const DiskEntry& expected,
                                        std::span<const std::byte, kRecordHeaderBytes> page,
                                        std::span<const std::byte> payload) {
  const absl::StatusOr<RecordHeader> found = DecodeRecordHeader(page);
  if (!found.ok()) return Damaged(expected, found.status().message());
  const std::string difference = Difference(*found, expected);
  if (!difference.empty()) return Damaged(expected, difference);
  const BlockIdentity identity{.key = found->key,
                               .space = found->space,
                               .length = found->length,
                               .generation = found->place.generation};
  // The page's seal has proven the sum; this proves the payload by it.
  KVT_RETURN_IF_ERROR(VerifyBlock(identity, found->sum, Seal(identity, found->sum), payload));
  return found->sum;
}

}  // namespace kvtier
