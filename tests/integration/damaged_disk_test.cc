// Damages the real files of a stopped agent's disk: after any damage the block is a miss, is
// counted, and never gives wrong bytes (law 3).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/segment_scan.h"
#include "tests/testing/test_worker.h"
#include "tier_disk/manifest/manifest_value.h"

namespace kvtier::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Blocks kPrefix = {.first = 100, .count = 8};

class DamagedDiskTest : public ::testing::Test {
 protected:
  // Puts eight blocks on disk and kills the agent.
  void SetUp() override {
    ASSERT_EQ(worker_.Put(kPrefix), kPrefix.count);
    ASSERT_TRUE(agent_.AwaitOffloaded());
    ASSERT_EQ(agent_.TierStatus(Tier::kDisk).blocks(), kPrefix.count);
    agent_.Kill();
  }
  void Restart() {
    ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
    ASSERT_TRUE(worker_.AwaitConnected());
  }
  // Returns the live record of the prefix's block `i`.
  FoundRecord RecordOf(size_t i) {
    const auto found = FindRecord(agent_.options().disk_dir, worker_.KeyOf(kPrefix.first + i));
    if (!found.has_value()) ADD_FAILURE() << "no record of block " << i;
    return found.value_or(FoundRecord());
  }
  // Expects that block `i` is a miss for ever and that its neighbours are hits.
  void ExpectOnlyMiss(size_t i) {
    EXPECT_THAT(worker_.Get({kPrefix.first, i}), SizeIs(i));
    EXPECT_THAT(worker_.Get({kPrefix.first + i, 1}), IsEmpty());
    const size_t rest = kPrefix.count - i - 1;
    EXPECT_THAT(worker_.Get({kPrefix.first + i + 1, rest}), SizeIs(rest));
    EXPECT_THAT(worker_.Get(kPrefix), SizeIs(i));
    EXPECT_FALSE(agent_.Holds(Tier::kDisk, worker_.KeyOf(kPrefix.first + i)));
  }
  uint64_t VerifyFailures() { return agent_.TierStatus(Tier::kDisk).verify_failures(); }
  std::unique_ptr<rocksdb::DB> OpenManifest() {
    rocksdb::DB* db = nullptr;
    const rocksdb::Status opened =
        rocksdb::DB::Open({}, agent_.options().disk_dir + "/manifest", &db);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    return std::unique_ptr<rocksdb::DB>(db);
  }
  // Changes the manifest's value of block `i` by `change`.
  template <typename Change>
  void ChangeManifest(size_t i, Change change) {
    const std::unique_ptr<rocksdb::DB> db = OpenManifest();
    ASSERT_NE(db, nullptr);
    const std::string row = BlockRowKey(worker_.KeyOf(kPrefix.first + i));
    std::string value;
    ASSERT_TRUE(db->Get({}, row, &value).ok());
    change(&value);
    rocksdb::WriteOptions synced;
    synced.sync = true;
    ASSERT_TRUE(db->Put(synced, row, value).ok());
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ =
      cluster_.StartAgent("node-a", {{"disk_bytes", "12MiB"}, {"segment_bytes", "2MiB"}});
  TestWorker worker_{{.socket_dir = agent_.socket_dir()}};
};

TEST_F(DamagedDiskTest, AnUndamagedDiskServesEveryBlock) {
  Restart();
  EXPECT_THAT(worker_.Get(kPrefix), Each(BlockSource::kDisk));
  EXPECT_EQ(VerifyFailures(), 0);
}

TEST_F(DamagedDiskTest, AFlippedBitInThePayloadIsAMissAndCounted) {
  FlipBit(RecordOf(3), kRecordHeaderBytes + 40'000);
  Restart();
  EXPECT_THAT(worker_.Get(kPrefix), SizeIs(3));
  EXPECT_EQ(VerifyFailures(), 1);
  ExpectOnlyMiss(3);
  EXPECT_EQ(VerifyFailures(), 1);
}

TEST_F(DamagedDiskTest, AFlippedBitInAnyFieldOfTheHeaderIsAMissAndCounted) {
  // Offsets of magic, version, key, space, length, generation, sum and seal.
  constexpr uint64_t kOffsets[kPrefix.count] = {0, 9, 17, 33, 64, 72, 97, 113};
  for (size_t i = 0; i < kPrefix.count; ++i) FlipBit(RecordOf(i), kOffsets[i]);
  Restart();
  for (size_t i = 0; i < kPrefix.count; ++i) {
    EXPECT_THAT(worker_.Get({kPrefix.first + i, 1}), IsEmpty()) << i;
  }
  EXPECT_EQ(VerifyFailures(), kPrefix.count);
}

TEST_F(DamagedDiskTest, ABlockWhoseDamagedCopyWasDroppedIsPutAgain) {
  FlipBit(RecordOf(3), kRecordHeaderBytes);
  Restart();
  EXPECT_THAT(worker_.Get(kPrefix), SizeIs(3));
  // The blocks behind the damaged one come to host memory a moment later.
  EXPECT_TRUE(Await(absl::Seconds(5),
                    [&] { return agent_.TierStatus(Tier::kHost).blocks() == kPrefix.count - 1; }));
  EXPECT_EQ(worker_.Put(kPrefix), 1);
  ASSERT_TRUE(agent_.AwaitOffloaded());
  agent_.Evict(Tier::kHost);
  EXPECT_THAT(worker_.Get(kPrefix), SizeIs(kPrefix.count));
}

// A worker computes and puts what it did not get. The put was answered "present" for blocks whose
// damage nobody had read yet, and the next get failed at them.
TEST_F(DamagedDiskTest, APutReplacesDamagedCopiesThatNobodyHasRead) {
  for (size_t i = 0; i < kPrefix.count; ++i) FlipBit(RecordOf(i), kRecordHeaderBytes + 1000 * i);
  Restart();
  EXPECT_EQ(worker_.Put(kPrefix), kPrefix.count);
  ASSERT_TRUE(agent_.AwaitOffloaded());
  EXPECT_EQ(VerifyFailures(), kPrefix.count);
  agent_.Evict(Tier::kHost);
  EXPECT_THAT(worker_.Get(kPrefix), Each(BlockSource::kDisk));
  EXPECT_EQ(VerifyFailures(), kPrefix.count);
}

TEST_F(DamagedDiskTest, TwoRecordsSwappedAreTwoMisses) {
  const FoundRecord one = RecordOf(2);
  const FoundRecord other = RecordOf(5);
  const std::vector<std::byte> bytes = ReadRecord(one);
  OverwriteRecord(one, ReadRecord(other));
  OverwriteRecord(other, bytes);
  Restart();
  EXPECT_THAT(worker_.Get({kPrefix.first + 2, 1}), IsEmpty());
  EXPECT_THAT(worker_.Get({kPrefix.first + 5, 1}), IsEmpty());
  EXPECT_EQ(VerifyFailures(), 2);
  EXPECT_THAT(worker_.Get({kPrefix.first + 3, 2}), SizeIs(2));
}

TEST_F(DamagedDiskTest, ARecordOfZeroesIsAMiss) {
  const FoundRecord record = RecordOf(4);
  OverwriteRecord(record, std::vector<std::byte>(ReadRecord(record).size()));
  Restart();
  ExpectOnlyMiss(4);
  EXPECT_EQ(VerifyFailures(), 1);
}

TEST_F(DamagedDiskTest, ATornWriteIsAMiss) {
  const FoundRecord record = RecordOf(4);
  std::vector<std::byte> bytes = ReadRecord(record);
  std::fill(bytes.end() - 8192, bytes.end(), std::byte{0});
  OverwriteRecord(record, bytes);
  Restart();
  ExpectOnlyMiss(4);
  EXPECT_EQ(VerifyFailures(), 1);
}

TEST_F(DamagedDiskTest, AnOlderGenerationsRecordOfTheSameBlockIsAMiss) {
  // Block 0's current record. The bytes of a block never change.
  const FoundRecord old = RecordOf(0);
  const std::vector<std::byte> stale = ReadRecord(old);
  Restart();
  // Other blocks fill the disk twice over, so block 0's segment is reclaimed. Then block 0 is put
  // again.
  for (uint64_t number = 10'000; number < 10'000 + 2 * 12 * 16; number += 16) {
    ASSERT_EQ(worker_.Put({number, 16}), 16);
    ASSERT_TRUE(agent_.AwaitOffloaded());
  }
  ASSERT_FALSE(agent_.Holds(Tier::kDisk, worker_.KeyOf(kPrefix.first)));
  agent_.Evict(Tier::kHost);
  ASSERT_EQ(worker_.Put({kPrefix.first, 1}), 1);
  ASSERT_TRUE(agent_.AwaitOffloaded());
  agent_.Kill();

  const FoundRecord now = RecordOf(0);
  ASSERT_GT(now.header.place.generation, old.header.place.generation);
  ASSERT_EQ(ReadRecord(now).size(), stale.size());
  OverwriteRecord(now, stale);
  Restart();
  EXPECT_THAT(worker_.Get({kPrefix.first, 1}), IsEmpty());
  EXPECT_EQ(VerifyFailures(), 1);
}

TEST_F(DamagedDiskTest, AFlippedBitInTheManifestsValueIsAMissAndCounted) {
  ChangeManifest(5, [](std::string* value) { (*value)[value->size() / 2] ^= 8; });
  Restart();
  ExpectOnlyMiss(5);
  EXPECT_EQ(agent_.Status().disk_recovery().dropped_corrupt(), 1);
  EXPECT_THAT(agent_.LogText(), HasSubstr("1 damaged"));
}

TEST_F(DamagedDiskTest, AManifestValueOfAnotherBlockIsAMissAndCounted) {
  std::string other;
  ChangeManifest(1, [&](std::string* value) { other = *value; });
  ChangeManifest(5, [&](std::string* value) { *value = other; });
  Restart();
  ExpectOnlyMiss(5);
  EXPECT_EQ(agent_.Status().disk_recovery().dropped_corrupt(), 1);
  EXPECT_EQ(agent_.Status().disk_recovery().recovered_blocks(), kPrefix.count - 1);
}

TEST_F(DamagedDiskTest, AManifestThatPointsToAnotherBlocksRecordIsAMissAndCounted) {
  // The entry is valid but wrong: block 5's own, with a right checksum, at a place without a
  // record.
  ChangeManifest(5, [&](std::string* value) {
    ManifestImage image;
    ASSERT_TRUE(DecodeRow(BlockRowKey(worker_.KeyOf(kPrefix.first + 5)), *value, &image).ok());
    DiskEntry entry = image.entries.front();
    entry.place.offset = (uint64_t{1} << 20) + 4096;
    *value = EncodeEntry(entry);
  });
  Restart();
  ExpectOnlyMiss(5);
  EXPECT_EQ(VerifyFailures(), 1);
}

TEST_F(DamagedDiskTest, AManifestThatIsGoneMakesAnEmptyDiskAndNotWrongBytes) {
  std::error_code error;
  std::filesystem::remove_all(agent_.options().disk_dir + "/manifest", error);
  Restart();
  EXPECT_THAT(worker_.Get(kPrefix), IsEmpty());
  EXPECT_EQ(worker_.Put(kPrefix), kPrefix.count);
  ASSERT_TRUE(agent_.AwaitOffloaded());
  agent_.Evict(Tier::kHost);
  EXPECT_THAT(worker_.Get(kPrefix), SizeIs(kPrefix.count));
}

TEST_F(DamagedDiskTest, ASegmentFileThatIsGoneIsMissesAndTheAgentStarts) {
  const FoundRecord record = RecordOf(0);
  std::error_code error;
  std::filesystem::remove(record.file, error);
  Restart();
  EXPECT_THAT(worker_.Get(kPrefix), IsEmpty());
  // The get ended with the first miss; the reads of the other blocks end later.
  EXPECT_TRUE(Await(absl::Seconds(5), [&] { return VerifyFailures() == kPrefix.count; }));
}

}  // namespace
}  // namespace kvtier::testing
