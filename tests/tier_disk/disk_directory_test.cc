// Tests the life of a disk directory: its id, the state after a crash between two steps of opening,
// and that nothing of another program is touched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "core/checksum.h"
#include "tests/tier_disk/disk_rig.h"
#include "tier_disk/directory/open_disk.h"
#include "tier_disk/directory/superblock_file.h"

namespace kvtier {
namespace {

using ::testing::AllOf;
using testing::FreshDirectory;
using ::testing::HasSubstr;

constexpr uint64_t kSegmentBytes = uint64_t{1} << 20;
constexpr uint32_t kSegments = 3;

class DiskDirectoryTest : public ::testing::Test {
 protected:
  DiskDirectoryTest() : executor_("test-executor"), directory_(FreshDirectory("directory")) {}
  ~DiskDirectoryTest() override {
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
  }
  absl::StatusOr<OpenedDisk> Open(uint32_t segments = kSegments) {
    return OpenDisk(
        &executor_,
        {.directory = directory_, .segment_bytes = kSegmentBytes, .segment_count = segments},
        DiskIoKind::kPread);
  }
  // Makes a disk with a block: a page in segment 0 and its row.
  void MakeDisk() {
    auto disk = Open();
    ASSERT_TRUE(disk.ok()) << disk.status();
    PageBuffer page = testing::DiskPayload(1, 4096);
    const std::array<std::span<const std::byte>, 1> buffers = {page.bytes()};
    ASSERT_EQ(testing::RunTask(&executor_,
                               disk->disk->Write(IoClass::kOffload, {SegmentId{0}, 0}, buffers)),
              absl::OkStatus());
    ManifestBatch batch;
    batch.puts.push_back({.block = {.key = testing::DiskKey(1), .length = 4096},
                          .place = {.segment = SegmentId{0}, .generation = 1}});
    ASSERT_EQ(testing::RunTask(&executor_, disk->manifest->Commit(batch)), absl::OkStatus());
    made_ = *disk->files->superblock();
  }
  // Adds many rows to that of MakeDisk(), and makes RocksDB write all of them to a table file.
  void MakeTable() {
    auto disk = Open();
    ASSERT_TRUE(disk.ok()) << disk.status();
    ManifestBatch batch;
    for (uint64_t i = 100; i < 2000; ++i) {
      batch.puts.push_back({.block = {.key = testing::DiskKey(i), .length = 4096},
                            .place = {.segment = SegmentId{1}, .generation = 1}});
    }
    ASSERT_EQ(testing::RunTask(&executor_, disk->manifest->Commit(batch)), absl::OkStatus());
    ASSERT_EQ(testing::RunTask(&executor_, disk->manifest->EraseSalt("nobody")), absl::OkStatus());
  }
  // Returns whether the block of MakeDisk() is there, page and row; never one without the other.
  bool HasBlock(OpenedDisk* disk) {
    PageBuffer page(4096);
    const std::array<std::span<std::byte>, 1> buffers = {page.bytes()};
    EXPECT_EQ(testing::RunTask(&executor_,
                               disk->disk->Read(IoClass::kForeground, {SegmentId{0}, 0}, buffers)),
              absl::OkStatus());
    const auto image = testing::RunTask(&executor_, disk->manifest->Load());
    EXPECT_TRUE(image.ok()) << image.status();
    const bool row = image.ok() && !image->entries.empty();
    EXPECT_EQ(testing::HoldsDiskBlock(1, 4096, &page), row);
    return row;
  }
  std::string SuperblockPath() const { return directory_ + "/superblock"; }
  std::string ReadAll(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void WriteAt(uint64_t offset, const std::string& bytes) {
    std::fstream file(SuperblockPath(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(offset));
    file << bytes;
  }
  // Overwrites both copies of the superblock with one whose field at `offset` is `value` and whose
  // checksum is right.
  template <typename T>
  void Forge(uint64_t offset, T value) {
    auto file = EncodeSuperblockFile(made_);
    const std::span<std::byte> page = std::span(file).first(kSuperblockBytes);
    std::memcpy(page.data() + offset, &value, sizeof(value));
    const PayloadSum sum = SumPayload(page.first(4080));
    std::memcpy(page.data() + 4080, &sum.hi, sizeof(sum.hi));
    std::memcpy(page.data() + 4088, &sum.lo, sizeof(sum.lo));
    const std::string bytes(reinterpret_cast<const char*>(page.data()), page.size());
    WriteAt(0, bytes + bytes);
  }
  std::string CopyOf(const Superblock& superblock) {
    std::array<std::byte, kSuperblockBytes> page;
    EncodeSuperblock(superblock, page);
    return {reinterpret_cast<const char*>(page.data()), page.size()};
  }
  void ExpectBothCopies(const Superblock& superblock) {
    EXPECT_EQ(ReadAll(SuperblockPath()), CopyOf(superblock) + CopyOf(superblock));
  }
  // Opens a directory whose block must be gone; the disk has a new incarnation.
  void ExpectStartsEmpty(bool same_disk) {
    auto disk = Open();
    ASSERT_TRUE(disk.ok()) << disk.status();
    EXPECT_FALSE(HasBlock(&*disk));
    const Superblock& now = *disk->files->superblock();
    EXPECT_EQ(now.identity.disk == made_.identity.disk, same_disk);
    EXPECT_NE(now.identity.incarnation, made_.identity.incarnation);
    EXPECT_EQ(disk->id, now.identity.disk);
    ExpectBothCopies(now);
  }

  ThreadExecutor executor_;
  const std::string directory_;
  Superblock made_;  // Superblock that MakeDisk() left.
};

TEST_F(DiskDirectoryTest, AFreshDirectorySaysWhatItIs) {
  MakeDisk();
  EXPECT_NE(made_.identity.disk, DiskId{});
  EXPECT_NE(made_.identity.incarnation, IncarnationId{});
  EXPECT_EQ(made_.geometry,
            (DiskGeometry{.segment_bytes = kSegmentBytes, .segment_count = kSegments}));
  EXPECT_GT(made_.created, absl::FromUnixSeconds(1'700'000'000));
  ExpectBothCopies(made_);
  struct stat file = {};
  ASSERT_EQ(stat(SuperblockPath().c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600);
}

TEST_F(DiskDirectoryTest, ADiskOpenedAgainIsTheSameAndKeepsItsBlocks) {
  MakeDisk();
  auto disk = Open();
  ASSERT_TRUE(disk.ok()) << disk.status();
  EXPECT_TRUE(HasBlock(&*disk));
  EXPECT_EQ(*disk->files->superblock(), made_);
  EXPECT_EQ(disk->id, made_.identity.disk);
}

TEST_F(DiskDirectoryTest, AResizedDiskSaysSoAndKeepsItsBlocks) {
  MakeDisk();
  auto disk = Open(kSegments + 2);
  ASSERT_TRUE(disk.ok()) << disk.status();
  EXPECT_TRUE(HasBlock(&*disk));
  Superblock resized = made_;
  resized.geometry.segment_count = kSegments + 2;
  ++resized.sequence;
  EXPECT_EQ(*disk->files->superblock(), resized);
  ExpectBothCopies(resized);
}

TEST_F(DiskDirectoryTest, WithoutASuperblockItStartsEmptyAsAnotherDisk) {
  MakeDisk();
  std::filesystem::remove(SuperblockPath());
  ExpectStartsEmpty(/*same_disk=*/false);
}

TEST_F(DiskDirectoryTest, ADiskOfBeforeTheFirstReleaseStartsEmptyAndSaysWhy) {
  MakeDisk();
  Forge<uint64_t>(0, 0x726570757374766b);  // Magic "kvtsuper", whatever its version.
  ::testing::internal::CaptureStderr();
  ExpectStartsEmpty(/*same_disk=*/false);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("another build made the disk"));
}

TEST_F(DiskDirectoryTest, WithBothCopiesDamagedItStartsEmptyAsAnotherDisk) {
  MakeDisk();
  WriteAt(100, "x");
  WriteAt(kSuperblockBytes + 100, "x");
  ExpectStartsEmpty(/*same_disk=*/false);
}

TEST_F(DiskDirectoryTest, WithoutItsManifestItIsTheSameDiskMadeAnew) {
  MakeDisk();
  std::filesystem::remove_all(directory_ + "/manifest");
  ExpectStartsEmpty(/*same_disk=*/true);
}

TEST_F(DiskDirectoryTest, WithADamagedManifestItIsTheSameDiskMadeAnew) {
  MakeDisk();
  std::ofstream(directory_ + "/manifest/CURRENT") << "nonsense";
  ExpectStartsEmpty(/*same_disk=*/true);
}

// Returns the file of the manifest whose name contains `part`.
std::string ManifestFile(const std::string& directory, const std::string& part) {
  for (const auto& file : std::filesystem::directory_iterator(directory + "/manifest")) {
    const std::string path = file.path().string();
    if (path.find(part, directory.size()) != std::string::npos) return path;
  }
  return "";
}

// Without its MANIFEST-* a disk once kept its agent from starting at all, because RocksDB reports a
// missing file as an I/O error. A damaged table opened, and then failed to load.
TEST_F(DiskDirectoryTest, AManifestThatLostAFileIsTheSameDiskMadeAnew) {
  using std::filesystem::file_size;
  using std::filesystem::resize_file;
  const auto remove = [](const std::string& path) { std::filesystem::remove(path); };
  const auto empty = [](const std::string& path) { resize_file(path, 0); };
  const auto cut = [](const std::string& path) { resize_file(path, file_size(path) / 2); };
  const auto flip = [this](const std::string& path) {
    std::string bytes = ReadAll(path);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    std::ofstream(path, std::ios::binary) << bytes;
  };
  const std::vector<std::pair<std::string, std::function<void(const std::string&)>>> damages = {
      {"/MANIFEST-", remove}, {"/MANIFEST-", empty}, {"/CURRENT", remove}, {"/CURRENT", empty},
      {".sst", remove},       {".sst", cut},         {".sst", flip},
  };
  for (size_t i = 0; i < damages.size(); ++i) {
    SCOPED_TRACE(i);
    std::filesystem::remove_all(directory_);
    MakeDisk();
    MakeTable();
    const std::string path = ManifestFile(directory_, damages[i].first);
    damages[i].second(path);
    ExpectStartsEmpty(/*same_disk=*/true);
    EXPECT_TRUE(Open().ok());
  }
}

// A read error may be temporary, so nothing is dropped.
TEST_F(DiskDirectoryTest, AManifestThatCannotBeReadIsLeftAsItIs) {
  const std::vector<std::string> parts = {"/MANIFEST-", "/CURRENT", ".sst"};
  for (const std::string& part : parts) {
    SCOPED_TRACE(part);
    std::filesystem::remove_all(directory_);
    MakeDisk();
    MakeTable();
    const std::string path = ManifestFile(directory_, part);
    std::filesystem::rename(path, directory_ + "/aside");
    std::filesystem::create_symlink(path, path);  // Even root gets an error: ELOOP.
    const absl::Status refused = Open().status();
    EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(directory_));
    std::filesystem::rename(directory_ + "/aside", path);
    auto disk = Open();
    ASSERT_TRUE(disk.ok()) << disk.status();
    EXPECT_TRUE(HasBlock(&*disk));
    EXPECT_EQ(*disk->files->superblock(), made_);
  }
}

// A failing device returns errors and wrong bytes, but may work again after the next boot.
TEST_F(DiskDirectoryTest, ADamagedManifestIsGivenUpOnlyWhenAllOfItCanBeRead) {
  MakeDisk();
  MakeTable();
  const std::string current = ReadAll(directory_ + "/manifest/CURRENT");
  std::ofstream(directory_ + "/manifest/CURRENT") << "nonsense";
  const std::string table = ManifestFile(directory_, ".sst");
  std::filesystem::rename(table, directory_ + "/aside");
  std::filesystem::create_symlink(table, table);
  const absl::Status refused = Open().status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(table));
  std::filesystem::rename(directory_ + "/aside", table);
  std::ofstream(directory_ + "/manifest/CURRENT") << current;
  auto disk = Open();
  ASSERT_TRUE(disk.ok()) << disk.status();
  EXPECT_TRUE(HasBlock(&*disk));
}

// The manifest's directory is a link to a volume that is not mounted.
TEST_F(DiskDirectoryTest, AManifestBehindALinkToNowhereIsLeftAsItIs) {
  MakeDisk();
  const std::string away = directory_ + ".away";
  std::filesystem::rename(directory_ + "/manifest", away);
  std::filesystem::create_symlink(away + ".unmounted", directory_ + "/manifest");
  EXPECT_TRUE(absl::IsUnavailable(Open().status()));
  std::filesystem::rename(away, away + ".unmounted");
  {
    auto disk = Open();
    ASSERT_TRUE(disk.ok()) << disk.status();
    EXPECT_TRUE(HasBlock(&*disk));
  }
  std::filesystem::remove_all(away + ".unmounted");
}

TEST_F(DiskDirectoryTest, OneDamagedCopyIsPutRight) {
  for (const uint64_t copy : {uint64_t{0}, uint64_t{kSuperblockBytes}}) {
    MakeDisk();
    WriteAt(copy + 30, "xyz");
    auto disk = Open();
    ASSERT_TRUE(disk.ok()) << disk.status();
    EXPECT_TRUE(HasBlock(&*disk));
    ExpectBothCopies(made_);
  }
}

// Whatever part of a change reached the device before the crash, the newer copy is valid.
TEST_F(DiskDirectoryTest, AChangeCutInTwoIsCompleted) {
  MakeDisk();
  Superblock newer = made_;
  ++newer.sequence;
  newer.compatible = 64;
  for (const uint64_t at : {uint64_t{0}, uint64_t{kSuperblockBytes}}) {
    WriteAt(0, CopyOf(made_) + CopyOf(made_));
    WriteAt(at, CopyOf(newer));
    auto disk = Open();
    ASSERT_TRUE(disk.ok()) << disk.status();
    EXPECT_TRUE(HasBlock(&*disk));
    ExpectBothCopies(newer);
  }
}

// The files are resized first, the superblock second.
TEST_F(DiskDirectoryTest, AResizeCutInTwoBeginsOnceMore) {
  MakeDisk();
  ASSERT_TRUE(Open(kSegments + 1).ok());
  WriteAt(0, CopyOf(made_) + CopyOf(made_));
  auto disk = Open(kSegments + 1);
  ASSERT_TRUE(disk.ok()) << disk.status();
  EXPECT_TRUE(HasBlock(&*disk));
  EXPECT_EQ(disk->files->superblock()->geometry.segment_count, kSegments + 1);
}

// Tests each step of making a directory, with a crash right after it.
TEST_F(DiskDirectoryTest, AMakingCutInTwoBeginsOnceMore) {
  const auto make_segment = [&](const std::string& bytes) {
    std::filesystem::create_directories(directory_ + "/segments");
    std::ofstream(directory_ + "/segments/00000000.seg") << bytes;
  };
  const std::vector<std::function<void()>> steps = {
      [&] { std::filesystem::create_directory(directory_); },
      [&] { std::ofstream(directory_ + "/LOCK").flush(); },
      [&] { make_segment(""); },
      [&] { make_segment("half a segment"); },
      [&] { std::ofstream(SuperblockPath() + ".new") << "torn"; },
      // This leaves the superblock, with no manifest or an unfinished one.
      [&] { SuperblockFile(directory_).Create(made_).IgnoreError(); },
      [&] { std::filesystem::create_directory(directory_ + "/manifest"); },
      [&] { std::ofstream(directory_ + "/manifest/LOCK").flush(); },
  };
  MakeDisk();
  for (size_t last = 0; last < steps.size(); ++last) {
    SCOPED_TRACE(last);
    std::filesystem::remove_all(directory_);
    for (size_t step = 0; step <= last; ++step) steps[step]();
    auto disk = Open();
    ASSERT_TRUE(disk.ok()) << disk.status();
    EXPECT_FALSE(HasBlock(&*disk));
    ExpectBothCopies(*disk->files->superblock());
  }
}

// Tests each step of starting empty over a damaged manifest: new segments, no manifest, another
// incarnation, then the new manifest.
TEST_F(DiskDirectoryTest, AStartingEmptyCutInTwoBeginsOnceMore) {
  for (int last = 0; last < 3; ++last) {
    SCOPED_TRACE(last);
    std::filesystem::remove_all(directory_);
    MakeDisk();
    std::ofstream(directory_ + "/manifest/CURRENT") << "nonsense";
    std::filesystem::remove(directory_ + "/segments/00000000.seg");
    if (last >= 1) std::filesystem::remove_all(directory_ + "/manifest");
    if (last >= 2) {
      Superblock next = made_;
      ++next.sequence;
      next.identity.incarnation.bytes.fill(9);
      ASSERT_EQ(SuperblockFile(directory_).Change(next), absl::OkStatus());
    }
    ExpectStartsEmpty(/*same_disk=*/true);
  }
}

// Tests the same for a directory that is dropped whole.
TEST_F(DiskDirectoryTest, ADroppingCutInTwoBeginsOnceMore) {
  for (int last = 0; last < 2; ++last) {
    SCOPED_TRACE(last);
    std::filesystem::remove_all(directory_);
    MakeDisk();
    std::filesystem::remove(SuperblockPath());
    std::filesystem::remove_all(directory_ + "/segments");
    if (last >= 1) std::filesystem::remove_all(directory_ + "/manifest");
    ExpectStartsEmpty(/*same_disk=*/false);
  }
}

class ForeignDiskTest : public DiskDirectoryTest {
 protected:
  // Checks that the disk is refused, also with another size, and that every byte is unchanged.
  void ExpectUntouched(absl::Status* refused) {
    const std::string superblock = ReadAll(SuperblockPath());
    *refused = Open(kSegments - 1).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(*refused)) << *refused;
    EXPECT_THAT(std::string(refused->message()), HasSubstr(directory_));
    EXPECT_EQ(ReadAll(SuperblockPath()), superblock);
    EXPECT_TRUE(std::filesystem::exists(directory_ + "/segments/00000002.seg"));
    // The files were not the reason for the refusal.
    WriteAt(0, CopyOf(made_) + CopyOf(made_));
    auto disk = Open();
    ASSERT_TRUE(disk.ok()) << disk.status();
    EXPECT_TRUE(HasBlock(&*disk));
  }
};

TEST_F(ForeignDiskTest, ANewerLayoutIsRefusedByBothVersionsAndUntouched) {
  MakeDisk();
  Forge<uint32_t>(8, kDiskLayoutVersion + 5);
  absl::Status refused;
  ExpectUntouched(&refused);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("version 6"), HasSubstr("version 1")));
}

TEST_F(ForeignDiskTest, AnUnknownFeatureIsRefusedByNameAndUntouched) {
  MakeDisk();
  Forge<uint64_t>(80, uint64_t{1} << 40);
  absl::Status refused;
  ExpectUntouched(&refused);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("0x10000000000"));
}

TEST_F(ForeignDiskTest, AnEncryptedDiskIsRefusedAndUntouched) {
  MakeDisk();
  Superblock encrypted = made_;
  encrypted.key_check = 5;
  WriteAt(0, CopyOf(encrypted) + CopyOf(encrypted));
  absl::Status refused;
  ExpectUntouched(&refused);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("encrypted"));
}

}  // namespace
}  // namespace kvtier
