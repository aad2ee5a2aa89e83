#include "tier_disk/manifest_value.h"

#include <bit>
#include <cstring>
#include <span>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "core/byte_order.h"
#include "core/check.h"

namespace kvtier {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie");

constexpr char kBlockRow = 'b';
constexpr char kGenerationRow = 'g';
constexpr size_t kBlockRowKeyBytes = 1 + 16;
constexpr size_t kGenerationRowKeyBytes = 1 + 4;

// Integers are little-endian. A change of any field bumps kManifestValueVersion.
struct EntryLayout {
  uint8_t version;
  uint8_t has_parent;
  uint8_t zero[2];
  uint32_t segment;
  uint64_t generation;
  uint64_t offset;
  uint64_t length;
  uint64_t parent_hi;
  uint64_t parent_lo;
  uint8_t space[32];
  uint64_t check;  // Over the row key and all of the above.
};
static_assert(std::is_trivially_copyable_v<EntryLayout>);
static_assert(sizeof(EntryLayout) == 88);
static_assert(offsetof(EntryLayout, segment) == 4);
static_assert(offsetof(EntryLayout, generation) == 8);
static_assert(offsetof(EntryLayout, parent_hi) == 32);
static_assert(offsetof(EntryLayout, space) == 48);
static_assert(offsetof(EntryLayout, check) == 80);

struct GenerationLayout {
  uint8_t version;
  uint8_t zero[7];
  uint64_t generation;
  uint64_t check;
};
static_assert(std::is_trivially_copyable_v<GenerationLayout>);
static_assert(sizeof(GenerationLayout) == 24);
static_assert(offsetof(GenerationLayout, check) == 16);

// The value's checksum. A value that was copied to another row does not match.
uint64_t Check(absl::string_view row_key, absl::string_view covered) {
  const std::string bytes = absl::StrCat(row_key, covered);
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
    return absl::DataLossError(absl::StrCat("manifest value of ", value.size(), " bytes"));
  }
  std::memcpy(layout, value.data(), sizeof(Layout));
  if (layout->check != Check(row_key, Covered(*layout))) {
    return absl::DataLossError("manifest value fails its checksum");
  }
  if (layout->version != kManifestValueVersion) {
    return absl::DataLossError(absl::StrCat("manifest value version ", layout->version));
  }
  return absl::OkStatus();
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
  const BlockKey parent = entry.block.parent.value_or(BlockKey{});
  EntryLayout layout{.version = kManifestValueVersion,
                     .has_parent = entry.block.parent.has_value() ? uint8_t{1} : uint8_t{0},
                     .segment = static_cast<uint32_t>(entry.place.segment),
                     .generation = entry.place.generation,
                     .offset = entry.place.offset,
                     .length = entry.block.length,
                     .parent_hi = parent.hi,
                     .parent_lo = parent.lo};
  std::copy(entry.block.space.bytes.begin(), entry.block.space.bytes.end(), layout.space);
  return Finish(BlockRowKey(entry.block.key), layout);
}

std::string EncodeGeneration(const ManifestBatch::Generation& generation) {
  return Finish(
      GenerationRowKey(generation.segment),
      GenerationLayout{.version = kManifestValueVersion, .generation = generation.generation});
}

absl::Status DecodeRow(absl::string_view row_key, absl::string_view value, ManifestImage* image) {
  const bool is_block = row_key.size() == kBlockRowKeyBytes && row_key[0] == kBlockRow;
  const bool is_generation =
      row_key.size() == kGenerationRowKeyBytes && row_key[0] == kGenerationRow;
  if (is_block) {
    EntryLayout layout;
    if (absl::Status parsed = Parse(row_key, value, &layout); !parsed.ok()) return parsed;
    DiskEntry entry{
        .block = {.key = *BlockKey::FromBytes(row_key.substr(1)), .length = layout.length},
        .place = {.segment = SegmentId{layout.segment},
                  .generation = layout.generation,
                  .offset = layout.offset}};
    if (layout.has_parent == 1) {
      entry.block.parent = {.hi = layout.parent_hi, .lo = layout.parent_lo};
    }
    std::copy(std::begin(layout.space), std::end(layout.space), entry.block.space.bytes.begin());
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
  return absl::DataLossError(absl::StrCat("manifest row key of ", row_key.size(), " bytes"));
}

}  // namespace kvtier
