// Tests one residency table, as the agent writes it and as a worker reads it.
#include "agent/index/residency_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "proto/residency_words.h"
#include "tests/agent/residency_rig.h"
#include "tests/testing/patience.h"

namespace kvtier {
namespace {

using testing::NumberedKey;
using testing::ViewOf;

std::unique_ptr<ResidencyTable> MakeTable(uint32_t log2_buckets) {
  auto table = ResidencyTable::Create("test", log2_buckets);
  EXPECT_TRUE(table.ok()) << table.status();
  EXPECT_EQ((*table)->Populate(0, (*table)->buckets()), absl::OkStatus());
  return *std::move(table);
}

class ResidencyTableTest : public ::testing::Test {
 protected:
  ~ResidencyTableTest() override { table_->Audit(); }

  // Returns the first `count` keys of the table's bucket 0.
  std::vector<BlockKey> KeysOfOneBucket(size_t count) const {
    std::vector<BlockKey> keys;
    for (uint64_t number = 0; keys.size() < count; ++number) {
      if (table_->bucket_of(NumberedKey(number)) == 0) keys.push_back(NumberedKey(number));
    }
    return keys;
  }
  uint64_t WordOf(size_t word) const {
    uint64_t value = 0;
    std::memcpy(&value, table_->memory().bytes().data() + word * sizeof(value), sizeof(value));
    return value;
  }

  const std::unique_ptr<ResidencyTable> table_ = MakeTable(5);
  const std::shared_ptr<const ResidencyView> view_ = ViewOf(*table_);
};

TEST_F(ResidencyTableTest, AKeyThatIsNotHereIsNeverSaidToBe) {
  for (uint64_t i = 0; i < 100; ++i) table_->Add(NumberedKey(i), Tier::kHost);
  for (uint64_t i = 100; i < 10000; ++i) {
    ASSERT_EQ(view_->Look(NumberedKey(i)), Residence::kAbsent) << i;
  }
  EXPECT_EQ(table_->overflowed(), 0);
}

TEST_F(ResidencyTableTest, TheNearestTierIsSaid) {
  const BlockKey key = NumberedKey(1);
  table_->Add(key, Tier::kDisk);
  EXPECT_EQ(view_->Look(key), Residence::kDisk);
  table_->Add(key, Tier::kHost);
  EXPECT_EQ(view_->Look(key), Residence::kHost);
  table_->Add(key, Tier::kGpu);
  EXPECT_EQ(view_->Look(key), Residence::kGpu);
  EXPECT_EQ(table_->blocks(), 1);
  table_->Remove(key, Tier::kHost);
  EXPECT_EQ(view_->Look(key), Residence::kGpu);
  table_->Remove(key, Tier::kGpu);
  EXPECT_EQ(view_->Look(key), Residence::kDisk);
  table_->Remove(key, Tier::kDisk);
  EXPECT_EQ(view_->Look(key), Residence::kAbsent);
  EXPECT_EQ(table_->blocks(), 0);
}

TEST_F(ResidencyTableTest, WhatIsSoAlreadyChangesNothing) {
  const BlockKey key = NumberedKey(1);
  table_->Remove(key, Tier::kDisk);
  table_->Add(key, Tier::kDisk);
  table_->Add(key, Tier::kDisk);
  EXPECT_EQ(table_->blocks(), 1);
  table_->Remove(key, Tier::kHost);
  EXPECT_TRUE(table_->Has(key, Tier::kDisk));
  table_->Remove(key, Tier::kDisk);
  table_->Remove(key, Tier::kDisk);
  EXPECT_EQ(table_->blocks(), 0);
}

TEST_F(ResidencyTableTest, TheLowestBitsOfAKeyAreNotItsTiers) {
  const BlockKey key = {.hi = 1, .lo = 0x1234'5678'9abc'def7};
  table_->Add(key, Tier::kDisk);
  EXPECT_EQ(view_->Look(key), Residence::kDisk);
  EXPECT_FALSE(table_->Has(key, Tier::kGpu));
}

TEST_F(ResidencyTableTest, AKeyOfZerosIsABlockAsAnyOther) {
  EXPECT_EQ(view_->Look(BlockKey{}), Residence::kAbsent);
  table_->Add(BlockKey{}, Tier::kHost);
  EXPECT_EQ(view_->Look(BlockKey{}), Residence::kHost);
  table_->Remove(BlockKey{}, Tier::kHost);
  EXPECT_EQ(view_->Look(BlockKey{}), Residence::kAbsent);
}

// In a bucket with blocks that found no room, no key is ever reported as absent.
TEST_F(ResidencyTableTest, ABlockWithoutRoomIsPerhapsAndSoIsTheRestOfItsBucket) {
  const std::vector<BlockKey> keys = KeysOfOneBucket(wire::kBucketEntries + 3);
  for (size_t i = 0; i <= wire::kBucketEntries; ++i) table_->Add(keys[i], Tier::kHost);
  EXPECT_EQ(table_->overflowed(), 1);
  for (size_t i = 0; i < wire::kBucketEntries; ++i) {
    EXPECT_EQ(view_->Look(keys[i]), Residence::kHost) << i;
  }
  EXPECT_EQ(view_->Look(keys[wire::kBucketEntries]), Residence::kPerhaps);
  EXPECT_EQ(view_->Look(keys[wire::kBucketEntries + 1]), Residence::kPerhaps);
  EXPECT_TRUE(table_->Has(keys[wire::kBucketEntries], Tier::kHost));
}

TEST_F(ResidencyTableTest, AFreedEntryGoesToABlockWithoutRoom) {
  const std::vector<BlockKey> keys = KeysOfOneBucket(wire::kBucketEntries + 3);
  for (size_t i = 0; i < wire::kBucketEntries + 2; ++i) table_->Add(keys[i], Tier::kDisk);
  table_->Add(keys[wire::kBucketEntries], Tier::kGpu);
  table_->Audit();
  table_->Remove(keys[4], Tier::kDisk);
  EXPECT_EQ(table_->overflowed(), 1);
  table_->Remove(keys[5], Tier::kDisk);
  EXPECT_EQ(table_->overflowed(), 0);
  EXPECT_EQ(view_->Look(keys[wire::kBucketEntries]), Residence::kGpu);
  EXPECT_EQ(view_->Look(keys[wire::kBucketEntries + 1]), Residence::kDisk);
  EXPECT_EQ(view_->Look(keys[wire::kBucketEntries + 2]), Residence::kAbsent);
  EXPECT_EQ(view_->Look(keys[4]), Residence::kAbsent);
}

TEST_F(ResidencyTableTest, ABlockWithoutRoomLeavesAsItCame) {
  const std::vector<BlockKey> keys = KeysOfOneBucket(wire::kBucketEntries + 1);
  for (const BlockKey& key : keys) table_->Add(key, Tier::kHost);
  table_->Add(keys.back(), Tier::kDisk);
  table_->Remove(keys.back(), Tier::kHost);
  EXPECT_EQ(table_->overflowed(), 1);
  table_->Remove(keys.back(), Tier::kDisk);
  EXPECT_EQ(table_->overflowed(), 0);
  EXPECT_EQ(table_->blocks(), wire::kBucketEntries);
  EXPECT_EQ(view_->Look(keys.back()), Residence::kAbsent);
}

TEST_F(ResidencyTableTest, ATableOfTwiceTheSizeTakesOverEveryBlock) {
  for (uint64_t i = 0; i < 460; ++i) table_->Add(NumberedKey(i), kAllTiers[i % 3]);
  ASSERT_GT(table_->overflowed(), 0) << "14 of 15 on average";
  const auto larger = MakeTable(6);
  for (size_t bucket = 0; bucket < table_->buckets(); ++bucket) {
    larger->TakeOver(*table_, bucket);
    larger->Audit();
    EXPECT_EQ(larger->blocks(), table_->CountBlocks(bucket + 1));
  }
  EXPECT_EQ(larger->overflowed(), 0);
  const auto view = ViewOf(*larger);
  for (uint64_t i = 0; i < 460; ++i) {
    for (const Tier tier : kAllTiers) {
      EXPECT_EQ(larger->Has(NumberedKey(i), tier), tier == kAllTiers[i % 3]);
    }
    EXPECT_NE(view->Look(NumberedKey(i)), Residence::kAbsent);
  }
}

TEST_F(ResidencyTableTest, ARetiredTableSaysSo) {
  EXPECT_FALSE(view_->retired());
  table_->Retire();
  EXPECT_TRUE(view_->retired());
}

// docs/design/residency.md states these rates: the part of absent keys that a lookup calls
// "perhaps", by the average number of blocks in a bucket.
TEST(ResidencyRates, AreAsStatedAlsoAfterEveryBlockWasReplaced) {
  constexpr uint32_t kLog2Buckets = testing::kSanitized ? 14 : 16;
  std::mt19937_64 random(1);
  // Names of blocks are as good as random, and these cost less.
  const auto next_key = [&random] { return BlockKey{.hi = random(), .lo = random()}; };
  struct Stated {
    uint64_t load;
    double least, most;
  };
  for (const Stated& stated : {Stated{3, 0, 1e-6}, Stated{6, 2e-4, 1e-3}, Stated{8, 5e-3, 1.2e-2},
                               Stated{12, 0.13, 0.19}}) {
    const auto table = MakeTable(kLog2Buckets);
    std::vector<BlockKey> blocks(stated.load << kLog2Buckets);
    std::ranges::generate(blocks, next_key);
    for (const BlockKey& key : blocks) table->Add(key, Tier::kHost);
    for (const BlockKey& key : blocks) {
      table->Add(next_key(), Tier::kHost);
      table->Remove(key, Tier::kHost);
    }
    const auto view = ViewOf(*table);
    constexpr uint64_t kAsked = testing::kSanitized ? 200'000 : 1'000'000;
    uint64_t perhaps = 0;
    for (uint64_t i = 0; i < kAsked; ++i) {
      const Residence said = view->Look(next_key());
      ASSERT_TRUE(said == Residence::kAbsent || said == Residence::kPerhaps);
      perhaps += said == Residence::kPerhaps ? 1 : 0;
    }
    const double rate = static_cast<double>(perhaps) / kAsked;
    EXPECT_GE(rate, stated.least) << "load " << stated.load;
    EXPECT_LE(rate, stated.most) << "load " << stated.load;
    table->Audit();
  }
}

// The tests below check the memory of a table as a worker gets it.

TEST(ResidencyViewTest, AWorkerCannotMapATableForWriting) {
  const auto table = MakeTable(5);
  const int fd = table->memory().read_only_fd();
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
}

TEST(ResidencyViewTest, WhatIsNoTableIsRefused) {
  const auto open = [](uint64_t bytes, uint64_t magic, uint64_t log2_buckets) {
    const auto memory = *SealedMemory::Create("test", bytes);
    const uint64_t words[] = {magic, log2_buckets};
    std::memcpy(memory->bytes().data(), words, sizeof(words));
    auto mapping = *Mapping::Map(memory->read_only_fd(), bytes, Mapping::Access::kRead);
    return ResidencyView::Open(std::move(mapping)).status();
  };
  const uint64_t bytes = wire::ResidencyBytes(5);
  EXPECT_EQ(open(bytes, wire::kResidencyMagic, 5), absl::OkStatus());
  for (const absl::Status& refused :
       {open(bytes, wire::kResidencyMagic + 1, 5), open(bytes, wire::kResidencyMagic, 4),
        open(bytes, wire::kResidencyMagic, 6), open(bytes, wire::kResidencyMagic, 0),
        open(bytes, wire::kResidencyMagic, 5 + (uint64_t{1} << 32)),
        open(4096, wire::kResidencyMagic, 5)}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  }
}

}  // namespace
}  // namespace kvtier
