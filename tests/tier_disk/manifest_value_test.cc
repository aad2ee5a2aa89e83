#include "tier_disk/manifest/manifest_value.h"

#include <gtest/gtest.h>

namespace kvtier {
namespace {

DiskEntry SomeEntry() {
  DiskEntry entry{.block = {.key = {.hi = 1, .lo = 2},
                            .parent = BlockKey{.hi = 3, .lo = 4},
                            .length = 4096,
                            .owner = TenantTag{11}},
                  .place = {.segment = SegmentId{5}, .generation = 6, .offset = 8192}};
  entry.block.space.bytes.fill(10);
  return entry;
}

TEST(ManifestValueTest, AnEntryComesBackWhole) {
  const DiskEntry in = SomeEntry();
  ManifestImage image;
  ASSERT_TRUE(DecodeRow(BlockRowKey(in.block.key), EncodeEntry(in), &image).ok());
  EXPECT_EQ(image.entries, std::vector<DiskEntry>{in});
}

TEST(ManifestValueTest, ARootHasNoParent) {
  DiskEntry in = SomeEntry();
  in.block.parent.reset();
  ManifestImage image;
  ASSERT_TRUE(DecodeRow(BlockRowKey(in.block.key), EncodeEntry(in), &image).ok());
  EXPECT_EQ(image.entries[0].block.parent, std::nullopt);
}

TEST(ManifestValueTest, AGenerationComesBack) {
  const ManifestBatch::Generation in{.segment = SegmentId{77}, .generation = 1234};
  ManifestImage image;
  ASSERT_TRUE(DecodeRow(GenerationRowKey(in.segment), EncodeGeneration(in), &image).ok());
  ASSERT_EQ(image.generations.size(), 1);
  EXPECT_EQ(image.generations[0].segment, in.segment);
  EXPECT_EQ(image.generations[0].generation, 1234);
}

TEST(ManifestValueTest, EveryBitOfAValueCounts) {
  const DiskEntry entry = SomeEntry();
  std::string value = EncodeEntry(entry);
  for (size_t bit = 0; bit < value.size() * 8; ++bit) {
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << (bit % 8)));
    ManifestImage image;
    EXPECT_TRUE(absl::IsDataLoss(DecodeRow(BlockRowKey(entry.block.key), value, &image))) << bit;
    EXPECT_TRUE(image.entries.empty());
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << (bit % 8)));
  }
}

TEST(ManifestValueTest, AValueUnderAnotherKeyIsDamage) {
  ManifestImage image;
  EXPECT_TRUE(absl::IsDataLoss(
      DecodeRow(BlockRowKey({.hi = 1, .lo = 3}), EncodeEntry(SomeEntry()), &image)));
}

TEST(ManifestValueTest, ATruncatedValueIsDamage) {
  const std::string value = EncodeEntry(SomeEntry());
  ManifestImage image;
  for (size_t size = 0; size < value.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeRow(BlockRowKey(SomeEntry().block.key),
                                           absl::string_view(value).substr(0, size), &image)));
  }
}

TEST(ManifestValueTest, AnUnknownRowIsDamage) {
  ManifestImage image;
  EXPECT_TRUE(absl::IsDataLoss(DecodeRow("", "", &image)));
  EXPECT_TRUE(absl::IsDataLoss(DecodeRow("x-row", "value", &image)));
}

}  // namespace
}  // namespace kvtier
