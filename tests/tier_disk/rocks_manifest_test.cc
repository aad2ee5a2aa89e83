#include "tier_disk/manifest/rocks_manifest.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/testing/numbered_key.h"
#include "tests/tier_disk/disk_rig.h"
#include "tier_disk/log/record.h"
#include "tier_disk/manifest/manifest_value.h"

namespace kvtier {
namespace {

using testing::FreshDirectory;
using testing::NumberedKey;
using testing::RunTask;

class RocksManifestTest : public ::testing::Test {
 protected:
  RocksManifestTest() : executor_("test-executor"), path_(FreshDirectory("manifest")) { Open(); }
  ~RocksManifestTest() override {
    manifest_.reset();
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  void Open() {
    manifest_.reset();
    auto opened = RocksManifest::Open(&executor_, path_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    manifest_ = *std::move(opened);
  }
  void Commit(ManifestBatch batch) {
    ASSERT_EQ(RunTask(&executor_, manifest_->Commit(std::move(batch))), absl::OkStatus());
  }
  ManifestImage Load() { return *RunTask(&executor_, manifest_->Load()); }
  static DiskEntry Entry(uint64_t number) {
    return {.block = {.key = NumberedKey(number), .length = 4096},
            .place = {.segment = SegmentId{1}}};
  }

  ThreadExecutor executor_;
  const std::string path_;
  std::unique_ptr<RocksManifest> manifest_;
};

TEST_F(RocksManifestTest, AFreshStoreIsEmpty) {
  const ManifestImage image = Load();
  EXPECT_TRUE(image.entries.empty());
  EXPECT_TRUE(image.generations.empty());
}

TEST_F(RocksManifestTest, WhatWasCommittedIsThereAfterReopening) {
  Commit({.generations = {{SegmentId{1}, 4}}, .puts = {Entry(1), Entry(2)}});
  Open();
  const ManifestImage image = Load();
  ASSERT_EQ(image.entries.size(), 2);
  EXPECT_EQ(image.entries[0].block.key, std::min(NumberedKey(1), NumberedKey(2)));
  ASSERT_EQ(image.generations.size(), 1);
  EXPECT_EQ(image.generations[0].generation, 4);
}

TEST_F(RocksManifestTest, ABatchErasesBeforeItPuts) {
  Commit({.puts = {Entry(1), Entry(2)}});
  Commit({.erases = {NumberedKey(1), NumberedKey(2)}, .puts = {Entry(2)}});
  const ManifestImage image = Load();
  ASSERT_EQ(image.entries.size(), 1);
  EXPECT_EQ(image.entries[0].block.key, NumberedKey(2));
}

TEST_F(RocksManifestTest, ADamagedValueIsCountedOnceAndGone) {
  Commit({.puts = {Entry(1), Entry(2)}});
  manifest_.reset();
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(rocksdb::Options(), path_, &db).ok());
  std::string value = EncodeEntry(Entry(1));
  value[20] ^= 1;
  ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), BlockRowKey(NumberedKey(1)), value).ok());
  delete db;
  Open();
  const ManifestImage image = Load();
  EXPECT_EQ(image.dropped_corrupt, 1);
  ASSERT_EQ(image.entries.size(), 1);
  EXPECT_EQ(image.entries[0].block.key, NumberedKey(2));
  EXPECT_EQ(Load().dropped_corrupt, 0);
}

// Once, commits were acknowledged after the store's files had been moved or removed, and lost at
// the next start.
TEST_F(RocksManifestTest, NoCommitIsAcknowledgedOnceTheStoreIsNotWhereItWas) {
  const std::string other = path_ + "-other";
  const auto first = [this](const std::string& begin, const std::string& end) {
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(begin) && name.ends_with(end)) return entry.path();
    }
    return std::filesystem::path();
  };
  const auto replace = [&](const std::filesystem::path& path) {
    std::filesystem::copy(path, other, std::filesystem::copy_options::recursive);
    std::filesystem::rename(path, other + "-moved");
    std::filesystem::rename(other, path);
  };
  const std::pair<const char*, std::function<void()>> losses[] = {
      {"the directory is moved", [&] { std::filesystem::rename(path_, other); }},
      {"the directory is removed", [&] { std::filesystem::remove_all(path_); }},
      {"the directory is a copy", [&] { replace(path_); }},
      {"MANIFEST is removed", [&] { std::filesystem::remove(first("MANIFEST-", "")); }},
      {"CURRENT is removed", [&] { std::filesystem::remove(path_ + "/CURRENT"); }},
      {"the log is removed", [&] { std::filesystem::remove(first("", ".log")); }},
      {"a table is removed", [&] { std::filesystem::remove(first("", ".sst")); }},
      {"MANIFEST is a copy", [&] { replace(first("MANIFEST-", "")); }},
      {"the log is a copy", [&] { replace(first("", ".log")); }}};
  for (const auto& [what, lose] : losses) {
    SCOPED_TRACE(what);
    Commit({.puts = {Entry(1)}});
    ASSERT_EQ(RunTask(&executor_, manifest_->EraseSalt("nobody")), absl::OkStatus());  // A table.
    Commit({});
    lose();
    for (const ManifestBatch& batch : {ManifestBatch{.puts = {Entry(2)}}, ManifestBatch{}}) {
      const absl::Status refused = RunTask(&executor_, manifest_->Commit(batch));
      EXPECT_TRUE(absl::IsNotFound(refused)) << refused;
      EXPECT_NE(refused.message().find(path_), absl::string_view::npos) << refused;
    }
    EXPECT_TRUE(absl::IsNotFound(RunTask(&executor_, manifest_->EraseSalt("nobody"))));
    manifest_.reset();
    for (const char* const end : {"", "-other", "-other-moved"}) {
      std::filesystem::remove_all(path_ + end);
    }
    Open();
  }
}

// RocksDB removes and replaces files of its own, which is no loss.
TEST_F(RocksManifestTest, FilesThatTheStoreItselfRemovesAreNoLoss) {
  for (int round = 0; round < 5; ++round) {
    Commit({.puts = {Entry(1)}});
    ASSERT_EQ(RunTask(&executor_, manifest_->EraseSalt("nobody")), absl::OkStatus());
    Commit({.erases = {NumberedKey(1)}});
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      if (entry.path().filename().string().starts_with("OPTIONS")) {
        std::filesystem::remove(entry.path());
        break;
      }
    }
    std::ofstream(path_ + "/somebody's") << round;
    Commit({});
    Open();
  }
}

// Once, a store without its log opened, empty, and nothing said so.
TEST_F(RocksManifestTest, AStoreWithoutItsLogIsDamaged) {
  Commit({.puts = {Entry(1)}});
  manifest_.reset();
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    if (entry.path().extension() == ".log") std::filesystem::remove(entry.path());
  }
  const absl::Status opened = RocksManifest::Open(&executor_, path_).status();
  EXPECT_TRUE(absl::IsDataLoss(opened)) << opened;
  EXPECT_NE(opened.message().find("its log is gone"), absl::string_view::npos) << opened;
}

TEST_F(RocksManifestTest, AStoreInUseIsUnavailable) {
  EXPECT_TRUE(absl::IsUnavailable(RocksManifest::Open(&executor_, path_).status()));
}

// A quiet machine recovers within 3 s; this bound also holds with sanitizers.
TEST(DiskRecoveryTimeTest, ADiskOf100000BlocksIsWarmInSeconds) {
  constexpr uint64_t kBlocks = 100000;
  constexpr uint64_t kBatch = 1000;
  const DiskLayout layout{.directory = FreshDirectory("warm"),
                          .segment_bytes = uint64_t{256} << 20,
                          .segment_count = 5};
  // Generation of segment 0; the next segment's is one more.
  constexpr uint64_t kFirstGeneration = 5;
  const auto entry = [&](uint64_t i) {
    const uint64_t per_segment = layout.segment_bytes / RecordBytes(4096);
    const auto segment = static_cast<uint32_t>(i / per_segment);
    return DiskEntry{
        .block = {.key = testing::DiskKey(i), .parent = testing::DiskKey(i + 1), .length = 4096},
        .place = {.segment = SegmentId{segment},
                  .generation = segment + kFirstGeneration,
                  .offset = i % per_segment * RecordBytes(4096)}};
  };
  ThreadExecutor executor("test-executor");
  BytePool pool(&executor, "test-bytes", 1);
  {
    auto disk = OpenDisk(&executor, layout, DiskIoKind::kPread);
    ASSERT_TRUE(disk.ok()) << disk.status();
    ManifestBatch generations;
    for (uint32_t i = 0; i < layout.segment_count; ++i) {
      generations.generations.push_back({SegmentId{i}, i + kFirstGeneration});
    }
    ASSERT_EQ(RunTask(&executor, disk->manifest->Commit(std::move(generations))), absl::OkStatus());
    for (uint64_t i = 0; i < kBlocks; i += kBatch) {
      ManifestBatch batch;
      for (uint64_t j = i; j < i + kBatch; ++j) batch.puts.push_back(entry(j));
      ASSERT_EQ(RunTask(&executor, disk->manifest->Commit(std::move(batch))), absl::OkStatus());
      // 13 MB of rows pass through, but the memory that keeps some of them is bounded.
      EXPECT_LE(disk->manifest->memory_bytes(), uint64_t{24} << 20);
    }
    EXPECT_GE(disk->manifest->memory_bytes(), uint64_t{1} << 20);
  }
  const absl::Time started = executor.Now();
  const std::clock_t cpu_started = std::clock();
  auto disk = OpenDisk(&executor, layout, DiskIoKind::kPread);
  ASSERT_TRUE(disk.ok()) << disk.status();
  DiskTier tier(&executor, &pool, disk->disk.get(), disk->manifest.get(),
                [](DiskTier::Change, const BlockKey&, TenantTag) {});
  const auto recovery = RunTask(&executor, tier.Open());
  const absl::Duration took = executor.Now() - started;
  const double cpu_s = static_cast<double>(std::clock() - cpu_started) / CLOCKS_PER_SEC;
  ASSERT_TRUE(recovery.ok()) << recovery.status();
  EXPECT_EQ(recovery->recovered_blocks, kBlocks);
  EXPECT_EQ(tier.Find(testing::DiskKey(12345))->parent, testing::DiskKey(12346));
  std::printf("recovered %d blocks of 4 KiB in %.3f s, %.3f s of CPU\n", static_cast<int>(kBlocks),
              absl::ToDoubleSeconds(took), cpu_s);
  // CPU time is measured, because wall time depends on tests that run side by side.
  EXPECT_LT(cpu_s, 10);
  EXPECT_LT(took, absl::Seconds(60));
  std::error_code error;
  std::filesystem::remove_all(layout.directory, error);
}

}  // namespace
}  // namespace kvtier
