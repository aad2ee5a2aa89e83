// Tests that any damage to the bytes of a record, its manifest row or the superblock is found and
// counted, and that no damaged block is served; and that clean reads raise no alarm.
//
// KVTIER_CORRUPTIONS sets the number of corruptions, KVTIER_CLEAN_READS that of clean reads,
// KVTIER_TEST_SEED replays the draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/from_environment.h"
#include "tests/testing/patience.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/test_seed.h"
#include "tests/tier_disk/disk_rig.h"
#include "tier_disk/directory/superblock.h"
#include "tier_disk/log/record.h"
#include "tier_disk/manifest/manifest_value.h"

namespace kvtier {
namespace {

using testing::DiskForm;
using testing::DiskKey;
using testing::DiskPayload;
using testing::DiskRig;
using testing::MakeDiskBlock;
using testing::SimRandom;

constexpr uint64_t kSector = 512;  // Bytes that a device writes whole or not at all.
constexpr uint64_t kBlocks = 64;   // Number of blocks on the disk at any time.
constexpr uint64_t kDefaultCorruptions = 500;
constexpr uint64_t kDefaultCleanReads = testing::kSanitized ? 4'000 : 20'000;

// Returns the same length for both blocks of a pair, so that their records can be swapped.
uint64_t LengthOf(uint64_t number) {
  constexpr uint64_t kLengths[] = {4096, 1, 12'000, 65'536, 511, 30'001, 8'192, 513};
  return kLengths[number / 2 % std::size(kLengths)];
}

enum class Kind : uint8_t {
  kPayloadBit,
  kPayloadSector,
  kHeaderBit,
  kHeaderSector,
  kTornWrite,
  kSwapped,
  kStale,
  kManifestBit,
  kManifestOfAnother,
  kSuperblockBit,
  kSuperblockSector,
};
constexpr std::array<const char*, 11> kKindNames = {
    "payload: one bit",    "payload: a sector",   "header: one bit",
    "header: a sector",    "torn write",          "two records swapped",
    "older generation's",  "manifest: one bit",   "manifest: another's value",
    "superblock: one bit", "superblock: a sector"};

struct Tally {
  uint64_t done = 0;
  uint64_t detected = 0;
  uint64_t served = 0;  // Number of wrong bytes that were returned as right ones.
};

enum class Payloads : uint8_t { kClear, kSealed };

class DiskCorruptionTest : public ::testing::TestWithParam<Payloads> {
 protected:
  DiskCorruptionTest()
      : random_(testing::TestSeed()),
        rig_(DiskForm::kSim,
             {.segments = 16,
              .segment_bytes = uint64_t{1} << 20,
              .secret = GetParam() == Payloads::kSealed ? testing::TestSecret(1) : nullptr},
             "", [](const BlockKey&) {}) {
    Open();
  }
  ~DiskCorruptionTest() override { process_.reset(); }
  void Open() {
    process_.reset();
    ASSERT_EQ(rig_.Open(), absl::OkStatus());
    process_ = std::make_unique<TaskScope>(rig_.sim_executor.get());
    process_->Spawn(rig_.tier->RunScrub(0));
    FillUp();
  }
  // Puts every block. A put may reclaim others, which are put again.
  void FillUp() {
    while (rig_.tier->block_count() < kBlocks) {
      for (uint64_t number = 0; number < kBlocks; ++number) {
        ASSERT_EQ(rig_.Put(number, LengthOf(number)), absl::OkStatus());
      }
    }
  }

  // Returns the entry of the block's record in the manifest.
  DiskEntry EntryOf(uint64_t number) {
    ManifestImage image;
    const std::string row = BlockRowKey(DiskKey(number));
    EXPECT_EQ(DecodeRow(row, rig_.manifest_media.rows.at(row), &image), absl::OkStatus());
    return image.entries.at(0);
  }
  std::vector<std::byte> ReadRecord(const DiskEntry& entry) {
    return rig_.disk_media.ReadRaw(AddressOf(entry), RecordBytes(entry.block.length));
  }
  static DiskAddress AddressOf(const DiskEntry& entry, uint64_t at = 0) {
    return {entry.place.segment, entry.place.offset + at};
  }
  std::byte RandomByte() { return static_cast<std::byte>(random_.Below(256)); }

  // Fills the sector with zeroes, ones or noise, so that it differs from before.
  void RuinSector(std::span<std::byte> sector) {
    const std::vector<std::byte> before(sector.begin(), sector.end());
    while (std::equal(sector.begin(), sector.end(), before.begin())) {
      const uint64_t how = random_.Below(3);
      for (std::byte& byte : sector) {
        byte = how == 0 ? std::byte{0} : how == 1 ? std::byte{0xff} : RandomByte();
      }
    }
  }
  void RuinSectorOf(const DiskEntry& entry, uint64_t begin, uint64_t end) {
    const uint64_t at = begin + random_.Below((end - begin + kSector - 1) / kSector) * kSector;
    // Ruins payload bytes only: the padding after them is not part of the block.
    std::vector<std::byte> sector =
        rig_.disk_media.ReadRaw(AddressOf(entry, at), std::min(kSector, end - at));
    RuinSector(sector);
    rig_.disk_media.WriteRaw(AddressOf(entry, at), sector);
  }
  // Makes a torn write of the record: only its first sectors reach the disk, over the earlier
  // content.
  void Tear(const DiskEntry& entry) {
    const std::vector<std::byte> whole = ReadRecord(entry);
    const uint64_t content = kRecordHeaderBytes + entry.block.length;
    const uint64_t landed = random_.Below((content + kSector - 1) / kSector) * kSector;
    std::vector<std::byte> torn = whole;
    // Repeats until some content differs: an older byte may equal the new one.
    while (
        std::equal(torn.begin(), torn.begin() + static_cast<ptrdiff_t>(content), whole.begin())) {
      const bool was_empty = random_.Below(2) == 0;
      for (uint64_t i = landed; i < torn.size(); ++i) {
        torn[i] = was_empty ? std::byte{0} : RandomByte();
      }
    }
    rig_.disk_media.WriteRaw(AddressOf(entry), torn);
  }
  void Swap(const DiskEntry& a, const DiskEntry& b) {
    const std::vector<std::byte> bytes = ReadRecord(a);
    rig_.disk_media.WriteRaw(AddressOf(a), ReadRecord(b));
    rig_.disk_media.WriteRaw(AddressOf(b), bytes);
  }
  // Writes a genuine record of the same block at the same place, of an earlier generation.
  void MakeStale(const DiskEntry& entry) {
    std::vector<std::byte> page(kRecordHeaderBytes);
    const std::vector<std::byte> record = ReadRecord(entry);
    RecordHeader header = *DecodeRecordHeader(std::span(record).first<kRecordHeaderBytes>());
    header.place.generation -= 1 + random_.Below(header.place.generation);
    EncodeRecordHeader(header, std::span(page).first<kRecordHeaderBytes>());
    rig_.disk_media.WriteRaw(AddressOf(entry), page);
  }

  void Corrupt(Kind kind, Tally* tally);
  void CorruptRecord(Kind kind, Tally* tally);
  void CorruptManifest(Kind kind, Tally* tally);
  void CorruptSuperblock(Kind kind, Tally* tally);
  // Gets a damaged block; returns whether the damage was found.
  bool IsFound(uint64_t number, Tally* tally) {
    const absl::Status got = rig_.Get(number, LengthOf(number));
    if (absl::IsInternal(got)) ++tally->served;
    return absl::IsDataLoss(got) && absl::IsNotFound(rig_.Get(number, LengthOf(number)));
  }
  // Runs one pass of the scrub; returns how many records it dropped.
  uint64_t ScrubFinds() {
    EXPECT_EQ(rig_.tier->VerifyAll(kVerifyBytesPerSecond), absl::OkStatus());
    while (rig_.tier->scrub().pass.running()) EXPECT_TRUE(rig_.sim_time.Step());
    return rig_.tier->scrub().pass.counts.damaged;
  }
  // Reads undamaged blocks; counts false alarms.
  void ReadClean(uint64_t reads) {
    for (uint64_t i = 0; i < reads; ++i) {
      const uint64_t number = random_.Below(kBlocks);
      const absl::Status got = rig_.Get(number, LengthOf(number));
      if (!got.ok()) ++false_alarms_;
      ++clean_reads_;
    }
  }

  SimRandom random_;
  DiskRig rig_;
  std::unique_ptr<TaskScope> process_;
  uint64_t clean_reads_ = 0;
  uint64_t false_alarms_ = 0;
};

void DiskCorruptionTest::CorruptRecord(Kind kind, Tally* tally) {
  const uint64_t number = random_.Below(kBlocks);
  const DiskEntry entry = EntryOf(number);
  const uint64_t end = kRecordHeaderBytes + LengthOf(number);
  std::vector<uint64_t> hurt = {number};
  switch (kind) {
    case Kind::kPayloadBit:
      rig_.disk_media.FlipBit(AddressOf(entry, kRecordHeaderBytes),
                              random_.Below(LengthOf(number) * 8));
      break;
    case Kind::kPayloadSector:
      RuinSectorOf(entry, kRecordHeaderBytes, end);
      break;
    case Kind::kHeaderBit:
      rig_.disk_media.FlipBit(AddressOf(entry), random_.Below(kRecordHeaderBytes * 8));
      break;
    case Kind::kHeaderSector:
      RuinSectorOf(entry, 0, kRecordHeaderBytes);
      break;
    case Kind::kTornWrite:
      Tear(entry);
      break;
    case Kind::kSwapped:
      hurt.push_back(number ^ 1);
      Swap(entry, EntryOf(number ^ 1));
      break;
    default:
      MakeStale(entry);
      break;
  }
  const uint64_t failures = rig_.tier->stats().verify_failures;
  bool detected = true;
  if (random_.Below(2) == 0) {
    for (const uint64_t one : hurt) detected = IsFound(one, tally) && detected;
  } else {
    detected = ScrubFinds() == hurt.size();
    for (const uint64_t one : hurt) {
      const absl::Status got = rig_.Get(one, LengthOf(one));
      if (absl::IsInternal(got)) ++tally->served;
      detected = absl::IsNotFound(got) && detected;
    }
  }
  detected = detected && rig_.tier->stats().verify_failures == failures + hurt.size();
  tally->detected += detected ? 1 : 0;
  FillUp();
}

void DiskCorruptionTest::CorruptManifest(Kind kind, Tally* tally) {
  const uint64_t number = random_.Below(kBlocks);
  std::string& value = rig_.manifest_media.rows.at(BlockRowKey(DiskKey(number)));
  if (kind == Kind::kManifestBit) {
    const uint64_t bit = random_.Below(value.size() * 8);
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << bit % 8));
  } else {
    value = rig_.manifest_media.rows.at(BlockRowKey(DiskKey(number ^ 1)));
  }
  process_.reset();
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  const absl::Status got = rig_.Get(number, LengthOf(number));
  if (absl::IsInternal(got)) ++tally->served;
  tally->detected += absl::IsNotFound(got) && rig_.recovery.dropped_corrupt == 1 &&
                     rig_.recovery.recovered_blocks == kBlocks - 1;
  Open();
}

// Damages one copy of the superblock, or both. With one damaged copy the other one must be read;
// with two, decoding must fail.
void DiskCorruptionTest::CorruptSuperblock(Kind kind, Tally* tally) {
  Superblock superblock{.sequence = 1 + random_.Below(1000),
                        .geometry = {.segment_bytes = 1 << 20, .segment_count = 16}};
  for (auto* id : {&superblock.identity.disk.bytes, &superblock.identity.incarnation.bytes}) {
    for (auto& byte : *id) byte = static_cast<uint8_t>(1 + random_.Below(255));
  }
  auto file = EncodeSuperblockFile(superblock);
  const auto hurt = [&](size_t copy) {
    const std::span<std::byte> page =
        std::span(file).subspan(copy * kSuperblockBytes, kSuperblockBytes);
    const uint64_t bit = random_.Below(kSuperblockBytes * 8);
    if (kind == Kind::kSuperblockBit) {
      page[bit / 8] ^= std::byte{1} << bit % 8;
    } else {
      RuinSector(page.subspan(bit / 8 / kSector * kSector, kSector));
    }
  };
  const uint64_t first = random_.Below(2);
  hurt(first);
  const bool both = random_.Below(2) == 0;
  if (both) hurt(1 - first);
  const absl::StatusOr<DecodedSuperblock> read = DecodeSuperblock(file);
  if (read.ok() && read->superblock != superblock) ++tally->served;
  tally->detected += both ? absl::IsDataLoss(read.status())
                          : read.ok() && read->copies_differ && read->superblock == superblock;
}

void DiskCorruptionTest::Corrupt(Kind kind, Tally* tally) {
  ++tally->done;
  switch (kind) {
    case Kind::kManifestBit:
    case Kind::kManifestOfAnother:
      return CorruptManifest(kind, tally);
    case Kind::kSuperblockBit:
    case Kind::kSuperblockSector:
      return CorruptSuperblock(kind, tally);
    default:
      return CorruptRecord(kind, tally);
  }
}

TEST_P(DiskCorruptionTest, EveryCorruptionIsFoundNoneIsServedAndCleanReadsRaiseNoAlarm) {
  const uint64_t corruptions = testing::FromEnvironment("KVTIER_CORRUPTIONS", kDefaultCorruptions);
  const uint64_t clean = testing::FromEnvironment("KVTIER_CLEAN_READS", kDefaultCleanReads);
  std::array<Tally, kKindNames.size()> tallies;
  Tally all;
  for (uint64_t i = 0; i < corruptions && !HasFatalFailure(); ++i) {
    Tally& tally = tallies[i % tallies.size()];
    const Tally before = tally;
    Corrupt(static_cast<Kind>(i % tallies.size()), &tally);
    ASSERT_EQ(tally.detected, before.detected + 1) << i << ": " << kKindNames[i % tallies.size()];
    // Undamaged blocks are read in between.
    ReadClean(clean * (i + 1) / corruptions - clean_reads_);
  }
  std::printf("%-26s %9s %9s %9s\n", "corruption", "done", "detected", "served");
  for (size_t i = 0; i < tallies.size(); ++i) {
    const auto& [done, detected, served] = tallies[i];
    all = {all.done + done, all.detected + detected, all.served + served};
    std::printf("%-26s %9llu %9llu %9llu\n", kKindNames[i], static_cast<unsigned long long>(done),
                static_cast<unsigned long long>(detected), static_cast<unsigned long long>(served));
  }
  std::printf(
      "%-26s %9llu %9llu %9llu\n%llu clean reads, %llu false alarms\n", "all",
      static_cast<unsigned long long>(all.done), static_cast<unsigned long long>(all.detected),
      static_cast<unsigned long long>(all.served), static_cast<unsigned long long>(clean_reads_),
      static_cast<unsigned long long>(false_alarms_));
  EXPECT_EQ(all.done, corruptions);
  EXPECT_EQ(all.detected, corruptions);
  EXPECT_EQ(all.served, 0);
  EXPECT_EQ(clean_reads_, clean);
  EXPECT_EQ(false_alarms_, 0);
}

// One write is cut at each 512 B in turn; after the cut the earlier content stays.
TEST_P(DiskCorruptionTest, AWriteCutAtAnySectorIsFound) {
  for (const uint64_t number : {0, 4, 6, 10}) {
    const uint64_t content = kRecordHeaderBytes + LengthOf(number);
    for (uint64_t landed = 0; landed < content; landed += kSector) {
      const DiskEntry entry = EntryOf(number);
      std::vector<std::byte> torn = ReadRecord(entry);
      const std::vector<std::byte> whole = torn;
      for (uint64_t i = landed; i < torn.size(); ++i) torn[i] = RandomByte();
      if (std::equal(torn.begin(), torn.begin() + static_cast<ptrdiff_t>(content), whole.begin())) {
        continue;
      }
      rig_.disk_media.WriteRaw(AddressOf(entry), torn);
      Tally tally;
      ASSERT_TRUE(IsFound(number, &tally)) << number << " cut at " << landed;
      ASSERT_EQ(rig_.Put(number, LengthOf(number)), absl::OkStatus());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Payloads, DiskCorruptionTest,
                         ::testing::Values(Payloads::kClear, Payloads::kSealed),
                         [](const auto& payloads) {
                           return payloads.param == Payloads::kSealed ? "Sealed" : "Clear";
                         });

}  // namespace
}  // namespace kvtier
