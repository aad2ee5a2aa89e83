#include "tier_disk/manifest/manifest_value.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/byte_order.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "tier_disk/cipher/tenant_salt.h"

namespace kvtier {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie");

constexpr char kBlockRow = 'b';
constexpr char kGenerationRow = 'g';
// Prefix of the bytes that a checksum covers, so that no checksum of another format matches.
constexpr absl::string_view kValueTag = "kvtier.manifest.v1";
constexpr size_t kBlockRowKeyBytes = 1 + 16;
constexpr size_t kGenerationRowKeyBytes = 1 + 4;

// Kind of proof in the record's header.
enum class EntryKind : uint8_t { kSum = 0, kSealed = 1 };

// Integers are little-endian. Changing any field requires a new kManifestValueVersion.
struct EntryFields {
  uint8_t version = kManifestValueVersion;
  uint8_t has_parent;
  EntryKind kind;
  uint8_t zero;
  uint32_t segment;
  uint64_t generation;
  uint64_t offset;
  uint64_t length;
  uint64_t owner;
  uint64_t parent_hi;
  uint64_t parent_lo;
  uint8_t space[32];
};
static_assert(std::is_trivially_copyable_v<EntryFields>);
static_assert(sizeof(EntryFields) == 88);
static_assert(offsetof(EntryFields, segment) == 4);
static_assert(offsetof(EntryFields, generation) == 8);
static_assert(offsetof(EntryFields, owner) == 32);
static_assert(offsetof(EntryFields, parent_hi) == 40);
static_assert(offsetof(EntryFields, space) == 56);

struct EntryLayout {
  EntryFields fields;
  uint64_t check;  // Covers the row key and all of the above.
};
static_assert(sizeof(EntryLayout) == 96);
static_assert(offsetof(EntryLayout, check) == 88);

struct SealedEntryLayout {
  EntryFields fields;
  uint64_t key_id;  // Never zero.
  uint64_t check;
};
static_assert(sizeof(SealedEntryLayout) == 104);
static_assert(offsetof(SealedEntryLayout, check) == 96);

struct GenerationLayout {
  uint8_t version = kManifestValueVersion;
  uint8_t zero[7];
  uint64_t generation;
  uint64_t check;
};
static_assert(std::is_trivially_copyable_v<GenerationLayout>);
static_assert(sizeof(GenerationLayout) == 24);
static_assert(offsetof(GenerationLayout, check) == 16);

// Returns the value's checksum. A value that was copied to another row does not match.
uint64_t Check(absl::string_view row_key, absl::string_view covered) {
  const std::string bytes = absl::StrCat(kValueTag, row_key, covered);
  return SumPayload(std::as_bytes(std::span(bytes))).lo;
}

template <typename Layout>
absl::string_view Covered(const Layout& layout) {
  return {reinterpret_cast<const char*>(&layout), offsetof(Layout, check)};
}

template <typename Layout>
std::string Finish(absl::string_view row_key, Layout layout) {
  layout.check = Check(row_key, Covered(layout));
  return {reinterpret_cast<const char*>(&layout), sizeof(layout)};
}

template <typename Layout>
absl::Status Parse(absl::string_view row_key, absl::string_view value, Layout* layout) {
  if (value.size() != sizeof(Layout)) {
    return absl::DataLossError(
        absl::StrCat("manifest value has ", value.size(), " bytes, expected ", sizeof(Layout)));
  }
  std::memcpy(layout, value.data(), sizeof(Layout));
  if (layout->check != Check(row_key, Covered(*layout))) {
    return absl::DataLossError("manifest value fails its checksum");
  }
  const auto version = static_cast<uint8_t>(value[0]);  // First byte in every layout.
  if (version != kManifestValueVersion) {
    return absl::DataLossError(
        absl::StrCat("manifest value has version ", version, ", expected ", kManifestValueVersion));
  }
  return absl::OkStatus();
}

EntryFields FieldsOf(const DiskEntry& entry, EntryKind kind) {
  const BlockKey parent = entry.block.parent.value_or(BlockKey{});
  EntryFields fields{.has_parent = entry.block.parent.has_value() ? uint8_t{1} : uint8_t{0},
                     .kind = kind,
                     .segment = static_cast<uint32_t>(entry.place.segment),
                     .generation = entry.place.generation,
                     .offset = entry.place.offset,
                     .length = entry.block.length,
                     .owner = static_cast<uint64_t>(entry.block.owner),
                     .parent_hi = parent.hi,
                     .parent_lo = parent.lo};
  std::copy(entry.block.space.bytes.begin(), entry.block.space.bytes.end(), fields.space);
  return fields;
}

DiskEntry EntryOf(absl::string_view row_key, const EntryFields& fields) {
  DiskEntry entry{.block = {.key = *BlockKey::FromBytes(row_key.substr(1)),
                            .length = fields.length,
                            .owner = TenantTag{fields.owner}},
                  .place = {.segment = SegmentId{fields.segment},
                            .generation = fields.generation,
                            .offset = fields.offset}};
  if (fields.has_parent == 1) entry.block.parent = {.hi = fields.parent_hi, .lo = fields.parent_lo};
  std::copy(std::begin(fields.space), std::end(fields.space), entry.block.space.bytes.begin());
  return entry;
}

absl::Status CheckKind(const EntryFields& fields, EntryKind expected) {
  if (fields.kind == expected) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("manifest value has unexpected kind ", static_cast<uint32_t>(fields.kind)));
}

absl::StatusOr<DiskEntry> DecodeEntry(absl::string_view row_key, absl::string_view value) {
  if (value.size() != sizeof(SealedEntryLayout)) {
    EntryLayout layout;
    KVT_RETURN_IF_ERROR(Parse(row_key, value, &layout));
    KVT_RETURN_IF_ERROR(CheckKind(layout.fields, EntryKind::kSum));
    return EntryOf(row_key, layout.fields);
  }
  SealedEntryLayout layout;
  KVT_RETURN_IF_ERROR(Parse(row_key, value, &layout));
  KVT_RETURN_IF_ERROR(CheckKind(layout.fields, EntryKind::kSealed));
  if (layout.key_id == 0) return absl::DataLossError("manifest value names no key");
  DiskEntry entry = EntryOf(row_key, layout.fields);
  entry.block.key_id = KeyId{layout.key_id};
  return entry;
}

}  // namespace

std::string BlockRowKey(const BlockKey& key) {
  const std::array<uint8_t, 16> bytes = key.ToBytes();
  std::string row(1, kBlockRow);
  row.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return row;
}

std::string GenerationRowKey(SegmentId segment) {
  std::array<uint8_t, 4> bytes;
  StoreBig(static_cast<uint32_t>(segment), bytes.data());
  std::string row(1, kGenerationRow);
  row.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return row;
}

std::string EncodeEntry(const DiskEntry& entry) {
  const std::string row_key = BlockRowKey(entry.block.key);
  if (entry.block.key_id == KeyId{}) {
    return Finish(row_key, EntryLayout{.fields = FieldsOf(entry, EntryKind::kSum)});
  }
  return Finish(row_key, SealedEntryLayout{.fields = FieldsOf(entry, EntryKind::kSealed),
                                           .key_id = static_cast<uint64_t>(entry.block.key_id)});
}

std::string EncodeGeneration(const ManifestBatch::Generation& generation) {
  return Finish(GenerationRowKey(generation.segment),
                GenerationLayout{.generation = generation.generation});
}

absl::Status DecodeRow(absl::string_view row_key, absl::string_view value, ManifestImage* image) {
  const bool is_block = row_key.size() == kBlockRowKeyBytes && row_key[0] == kBlockRow;
  const bool is_generation =
      row_key.size() == kGenerationRowKeyBytes && row_key[0] == kGenerationRow;
  if (is_block) {
    KVT_ASSIGN_OR_RETURN(const DiskEntry entry, DecodeEntry(row_key, value));
    image->entries.push_back(entry);
    return absl::OkStatus();
  }
  if (is_generation) {
    GenerationLayout layout;
    if (absl::Status parsed = Parse(row_key, value, &layout); !parsed.ok()) return parsed;
    const auto* digits = reinterpret_cast<const uint8_t*>(row_key.data()) + 1;
    image->generations.push_back(
        {.segment = SegmentId{LoadBig<uint32_t>(digits)}, .generation = layout.generation});
    return absl::OkStatus();
  }
  if (absl::StartsWith(row_key, kTenantRowPrefix)) {
    KVT_ASSIGN_OR_RETURN(TenantSalt salt, DecodeTenantSalt(row_key, value));
    image->salts.push_back(std::move(salt));
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat("manifest row key has unexpected length ", row_key.size()));
}

}  // namespace kvtier
