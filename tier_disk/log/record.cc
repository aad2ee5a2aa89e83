#include "tier_disk/log/record.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

static_assert(std::endian::native == std::endian::little, "headers are copied as they lie");

constexpr uint64_t kRecordMagic = 0x6b636f6c6274766b;  // Bytes "kvtblock".

// Kind of proof of the payload.
enum class Kind : uint32_t { kSum = 0, kSealed = 1 };

// First bytes of the header page; proof, seal and zeroes to its end follow. Integers are
// little-endian. Changing any field or meaning requires a new kRecordVersion.
struct HeaderFields {
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
  Kind kind;
};
static_assert(std::is_trivially_copyable_v<HeaderFields>);
static_assert(sizeof(HeaderFields) == 96);
static_assert(offsetof(HeaderFields, version) == 8);
static_assert(offsetof(HeaderFields, header_bytes) == 12);
static_assert(offsetof(HeaderFields, key_hi) == 16);
static_assert(offsetof(HeaderFields, space) == 32);
static_assert(offsetof(HeaderFields, length) == 64);
static_assert(offsetof(HeaderFields, generation) == 72);
static_assert(offsetof(HeaderFields, segment) == 88);
static_assert(offsetof(HeaderFields, kind) == 92);

struct SumLayout {
  HeaderFields fields;
  uint64_t sum_hi;
  uint64_t sum_lo;
  uint64_t seal;  // Covers all of the above.
};
static_assert(sizeof(SumLayout) == 120);
static_assert(offsetof(SumLayout, sum_hi) == 96);
static_assert(offsetof(SumLayout, seal) == 112);

struct SealedLayout {
  HeaderFields fields;
  uint64_t key_id;
  uint8_t opening[16];
  uint8_t tag[16];
  uint64_t seal;
};
static_assert(sizeof(SealedLayout) == 144);
static_assert(offsetof(SealedLayout, key_id) == 96);
static_assert(offsetof(SealedLayout, tag) == 120);
static_assert(offsetof(SealedLayout, seal) == 136);

template <typename Layout>
uint64_t SealOf(const Layout& layout) {
  const std::span<const Layout, 1> whole(&layout, 1);
  return SumPayload(std::as_bytes(whole).first(offsetof(Layout, seal))).lo;
}

using Page = std::span<std::byte, kRecordHeaderBytes>;
using ConstPage = std::span<const std::byte, kRecordHeaderBytes>;

template <typename Layout>
void Finish(Layout layout, Page page) {
  layout.seal = SealOf(layout);
  std::memcpy(page.data(), &layout, sizeof(layout));
  std::fill(page.begin() + sizeof(layout), page.end(), std::byte{0});
}

// Parses a page. Errors: kDataLoss, the page contradicts itself.
template <typename Layout>
absl::StatusOr<Layout> ParseAs(ConstPage page) {
  Layout layout;
  std::memcpy(&layout, page.data(), sizeof(layout));
  // The padding is zero if its first byte is, and every other byte equals the one before it: one
  // memcmp().
  const auto padding = page.template subspan<sizeof(layout)>();
  if (padding.front() != std::byte{0} ||
      std::memcmp(padding.data(), padding.data() + 1, padding.size() - 1) != 0) {
    return absl::DataLossError("the record header's padding is not zero");
  }
  if (layout.seal != SealOf(layout)) {
    return absl::DataLossError("the record header does not match its own seal");
  }
  return layout;
}

HeaderFields FieldsOf(const RecordHeader& header, Kind kind) {
  HeaderFields fields{.magic = kRecordMagic,
                      .version = kRecordVersion,
                      .header_bytes = kRecordHeaderBytes,
                      .key_hi = header.key.hi,
                      .key_lo = header.key.lo,
                      .length = header.length,
                      .generation = header.place.generation,
                      .offset = header.place.offset,
                      .segment = static_cast<uint32_t>(header.place.segment),
                      .kind = kind};
  std::copy(header.space.bytes.begin(), header.space.bytes.end(), fields.space);
  return fields;
}

RecordHeader HeaderOf(const HeaderFields& fields) {
  RecordHeader header{.key = {.hi = fields.key_hi, .lo = fields.key_lo},
                      .length = fields.length,
                      .place = {.segment = SegmentId{fields.segment},
                                .generation = fields.generation,
                                .offset = fields.offset}};
  std::copy(std::begin(fields.space), std::end(fields.space), header.space.bytes.begin());
  return header;
}

absl::Status Damaged(const DiskEntry& expected, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("record of block ", expected.block.key.ToHex(), " in segment ",
                   static_cast<uint32_t>(expected.place.segment), " at ", expected.place.offset,
                   ", generation ", expected.place.generation, ": ", what));
}

// Returns which part of the header differs from index and manifest; empty: none.
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
  const KeyId key_id = found.proof ? found.proof->key_id : KeyId{};
  if (key_id != expected.block.key_id) return "is sealed under another key, or not at all";
  return "";
}

RecordIdentity IdentityOf(const DiskEntry& entry) {
  return {.key = entry.block.key,
          .space = entry.block.space,
          .length = entry.block.length,
          .place = entry.place};
}

}  // namespace

bool SameGeneration(uint64_t written, uint64_t segment) { return written == segment; }

RecordHeader HeaderOf(const DiskEntry& entry, const PayloadSum& sum) {
  return {.key = entry.block.key,
          .space = entry.block.space,
          .length = entry.block.length,
          .place = entry.place,
          .sum = sum};
}

RecordHeader HeaderOf(const DiskEntry& entry, const CipherProof& proof) {
  RecordHeader header = HeaderOf(entry, PayloadSum{});
  header.proof = proof;
  return header;
}

void EncodeRecordHeader(const RecordHeader& header, Page page) {
  if (!header.proof) {
    Finish(SumLayout{.fields = FieldsOf(header, Kind::kSum),
                     .sum_hi = header.sum.hi,
                     .sum_lo = header.sum.lo},
           page);
    return;
  }
  KVT_CHECK(header.sum == PayloadSum{} && header.proof->key_id != KeyId{});
  SealedLayout layout{.fields = FieldsOf(header, Kind::kSealed),
                      .key_id = static_cast<uint64_t>(header.proof->key_id)};
  const CipherProof& proof = *header.proof;
  std::copy(proof.opening.bytes.begin(), proof.opening.bytes.end(), layout.opening);
  std::copy(proof.tag.bytes.begin(), proof.tag.bytes.end(), layout.tag);
  Finish(layout, page);
}

absl::StatusOr<RecordHeader> DecodeRecordHeader(ConstPage page) {
  HeaderFields fields;
  std::memcpy(&fields, page.data(), sizeof(fields));
  if (fields.magic != kRecordMagic) {
    return absl::DataLossError("there is no record: its magic is wrong");
  }
  if (fields.version != kRecordVersion) {
    return absl::DataLossError(
        absl::StrCat("the record has version ", fields.version, ", expected ", kRecordVersion));
  }
  if (fields.header_bytes != kRecordHeaderBytes) {
    return absl::DataLossError(absl::StrCat("the record header says it has ", fields.header_bytes,
                                            " bytes, expected ", kRecordHeaderBytes));
  }
  RecordHeader header = HeaderOf(fields);
  switch (fields.kind) {
    case Kind::kSum: {
      KVT_ASSIGN_OR_RETURN(const SumLayout layout, ParseAs<SumLayout>(page));
      header.sum = {.hi = layout.sum_hi, .lo = layout.sum_lo};
      return header;
    }
    case Kind::kSealed: {
      KVT_ASSIGN_OR_RETURN(const SealedLayout layout, ParseAs<SealedLayout>(page));
      if (layout.key_id == 0) {
        return absl::DataLossError("the header of a sealed record names no key");
      }
      CipherProof& proof = header.proof.emplace();
      proof.key_id = KeyId{layout.key_id};
      std::copy(std::begin(layout.opening), std::end(layout.opening), proof.opening.bytes.begin());
      std::copy(std::begin(layout.tag), std::end(layout.tag), proof.tag.bytes.begin());
      return header;
    }
  }
  return absl::DataLossError(
      absl::StrCat("the record header has unknown kind ", static_cast<uint32_t>(fields.kind)));
}

absl::StatusOr<RecordHeader> VerifyHeader(const DiskEntry& expected, ConstPage page) {
  absl::StatusOr<RecordHeader> found = DecodeRecordHeader(page);
  if (!found.ok()) return Damaged(expected, found.status().message());
  const std::string difference = Difference(*found, expected);
  if (!difference.empty()) return Damaged(expected, difference);
  return found;
}

absl::StatusOr<PayloadSum> VerifyRecord(const DiskEntry& expected, ConstPage page,
                                        std::span<const std::byte> payload) {
  KVT_CHECK(expected.block.key_id == KeyId{});
  KVT_ASSIGN_OR_RETURN(const RecordHeader found, VerifyHeader(expected, page));
  // The page's seal has proven the sum; the sum now proves the payload.
  KVT_RETURN_IF_ERROR(VerifyPayload(found.key, found.length, found.sum, payload));
  return found.sum;
}

absl::StatusOr<PayloadSum> OpenRecord(const DiskEntry& expected, const RecordCipher& cipher,
                                      ConstPage page, std::span<std::byte> payload) {
  KVT_CHECK(cipher.key_id() == expected.block.key_id);
  const absl::StatusOr<RecordHeader> found = VerifyHeader(expected, page);
  if (!found.ok()) {
    std::fill(payload.begin(), payload.end(), std::byte{0});
    return found.status();
  }
  KVT_RETURN_IF_ERROR(cipher.Open(IdentityOf(expected), *found->proof, payload, payload));
  return SumPayload(payload);
}

absl::StatusOr<RecordHeader> SealRecord(const DiskEntry& entry, const RecordCipher& cipher,
                                        const PayloadSum* sum, std::span<std::byte> slot) {
  KVT_CHECK(cipher.key_id() == entry.block.key_id);
  const std::span<std::byte> payload = slot.first(entry.block.length);
  if (sum != nullptr && SumPayload(payload) != *sum) {
    return Damaged(entry, "its payload is not what was committed, nothing was sealed");
  }
  KVT_ASSIGN_OR_RETURN(const CipherProof proof, cipher.Seal(IdentityOf(entry), payload, slot));
  return HeaderOf(entry, proof);
}

}  // namespace kvtier
