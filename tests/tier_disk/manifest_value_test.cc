#include "tier_disk/manifest_value.h"

#include <gtest/gtest.h>

namespace kvtier {
namespace {

ManifestEntry SomeEntry() {
  ManifestEntry entry{.key = {.hi = 1, .lo = 2},
                      .parent = BlockKey{.hi = 3, .lo = 4},
                      .segment = SegmentId{5},
                      .generation = 6,
                      .offset = 8192,
                      .length = 4096,
                      .sum = {.hi = 7, .lo = 8},
                      .seal = 9};
  entry.space.bytes.fill(10);
  return entry;
}

TEST(ManifestValueTest, AnEntryComesBackWhole) {
  const ManifestEntry in = SomeEntry();
  ManifestImage image;
  ASSERT_TRUE(DecodeRow(BlockRowKey(in.key), EncodeEntry(in), &image).ok());
  ASSERT_EQ(image.entries.size(), 1);
  const ManifestEntry& out = image.entries[0];
  EXPECT_EQ(out.key, in.key);
  EXPECT_EQ(out.parent, in.parent);
  EXPECT_EQ(out.space, in.space);
  EXPECT_EQ(out.segment, in.segment);
  EXPECT_EQ(out.generation, in.generation);
  EXPECT_EQ(out.offset, in.offset);
  EXPECT_EQ(out.length, in.length);
  EXPECT_EQ(out.sum, in.sum);
  EXPECT_EQ(out.seal, in.seal);
}

TEST(ManifestValueTest, ARootHasNoParent) {
  ManifestEntry in = SomeEntry();
  in.parent.reset();
  ManifestImage image;
  ASSERT_TRUE(DecodeRow(BlockRowKey(in.key), EncodeEntry(in), &image).ok());
  EXPECT_EQ(image.entries[0].parent, std::nullopt);
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
  const ManifestEntry entry = SomeEntry();
  std::string value = EncodeEntry(entry);
  for (size_t bit = 0; bit < value.size() * 8; ++bit) {
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << (bit % 8)));
    ManifestImage image;
    EXPECT_TRUE(absl::IsDataLoss(DecodeRow(BlockRowKey(entry.key), value, &image))) << bit;
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
    EXPECT_TRUE(absl::IsDataLoss(
        DecodeRow(BlockRowKey(SomeEntry().key), absl::string_view(value).substr(0, size), &image)));
  }
}

TEST(ManifestValueTest, AnUnknownRowIsDamage) {
  ManifestImage image;
  EXPECT_TRUE(absl::IsDataLoss(DecodeRow("", "", &image)));
  EXPECT_TRUE(absl::IsDataLoss(DecodeRow("x-row", "value", &image)));
}

}  // namespace
}  // namespace kvtier
