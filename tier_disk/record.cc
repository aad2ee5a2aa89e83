#include "tier_disk/record.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"

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
  uint64_t sum_hi;
  uint64_t sum_lo;
  uint64_t seal;
};
static_assert(std::is_trivially_copyable_v<HeaderLayout>);
static_assert(sizeof(HeaderLayout) == 104);
static_assert(offsetof(HeaderLayout, version) == 8);
static_assert(offsetof(HeaderLayout, header_bytes) == 12);
static_assert(offsetof(HeaderLayout, key_hi) == 16);
static_assert(offsetof(HeaderLayout, space) == 32);
static_assert(offsetof(HeaderLayout, length) == 64);
static_assert(offsetof(HeaderLayout, generation) == 72);
static_assert(offsetof(HeaderLayout, sum_hi) == 80);
static_assert(offsetof(HeaderLayout, seal) == 96);

// The generation that takes part in seals and comparisons.
uint64_t CheckedGeneration(uint64_t generation) {
#ifdef KVTIER_PLANT_IGNORE_GENERATION
  generation = 0;
#endif
  return generation;
}

absl::Status Damaged(const Record& expected, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("record of block ", expected.identity.key.ToHex(),
                                          " at generation ", expected.identity.generation, ": ",
                                          what));
}

}  // namespace

Record SealRecord(const BlockIdentity& identity, const PayloadSum& sum) {
  Record record{.identity = identity, .sum = sum};
  record.identity.generation = CheckedGeneration(identity.generation);
  record.seal = Seal(record.identity, sum);
  return record;
}

bool SameGeneration(uint64_t written, uint64_t segment) {
  return CheckedGeneration(written) == CheckedGeneration(segment);
}

void EncodeRecordHeader(const Record& record, std::span<std::byte, kRecordHeaderBytes> header) {
  HeaderLayout layout{.magic = kRecordMagic,
                      .version = kRecordVersion,
                      .header_bytes = kRecordHeaderBytes,
                      .key_hi = record.identity.key.hi,
                      .key_lo = record.identity.key.lo,
                      .length = record.identity.length,
                      .generation = record.identity.generation,
                      .sum_hi = record.sum.hi,
                      .sum_lo = record.sum.lo,
                      .seal = record.seal};
  std::copy(record.identity.space.bytes.begin(), record.identity.space.bytes.end(), layout.space);
  std::memcpy(header.data(), &layout, sizeof(layout));
  std::fill(header.begin() + sizeof(layout), header.end(), std::byte{0});
}

absl::StatusOr<Record> DecodeRecordHeader(std::span<const std::byte, kRecordHeaderBytes> header) {
  HeaderLayout layout;
  std::memcpy(&layout, header.data(), sizeof(layout));
  if (layout.magic != kRecordMagic) return absl::DataLossError("no record: wrong magic");
  if (layout.version != kRecordVersion) {
    return absl::DataLossError(
        absl::StrCat("record version ", layout.version, ", expected ", kRecordVersion));
  }
  if (layout.header_bytes != kRecordHeaderBytes) {
    return absl::DataLossError(absl::StrCat("record header of ", layout.header_bytes, " bytes"));
  }
  if (!std::all_of(header.begin() + sizeof(layout), header.end(),
                   [](std::byte byte) { return byte == std::byte{0}; })) {
    return absl::DataLossError("record header's padding is not zero");
  }
  Record record{.identity = {.key = {.hi = layout.key_hi, .lo = layout.key_lo},
                             .length = layout.length,
                             .generation = CheckedGeneration(layout.generation)},
                .sum = {.hi = layout.sum_hi, .lo = layout.sum_lo},
                .seal = layout.seal};
  std::copy(std::begin(layout.space), std::end(layout.space), record.identity.space.bytes.begin());
  if (record.seal != Seal(record.identity, record.sum)) {
    return absl::DataLossError("record header does not match its own seal");
  }
  return record;
}

absl::Status VerifyRecord(const Record& expected,
                          std::span<const std::byte, kRecordHeaderBytes> header,
                          std::span<const std::byte> payload) {
  const absl::StatusOr<Record> found = DecodeRecordHeader(header);
  if (!found.ok()) return Damaged(expected, found.status().message());
  if (found->identity.key != expected.identity.key) {
    return Damaged(expected, absl::StrCat("holds block ", found->identity.key.ToHex()));
  }
  if (found->identity.generation != expected.identity.generation) {
    return Damaged(expected, absl::StrCat("is of generation ", found->identity.generation));
  }
  if (found->identity.space != expected.identity.space ||
      found->identity.length != expected.identity.length || found->sum != expected.sum ||
      found->seal != expected.seal) {
    return Damaged(expected, "space, length, sum or seal differ from the manifest's");
  }
  return VerifyBlock(expected.identity, expected.sum, found->seal, payload);
}

}  // namespace kvtier
