// Tests UringDisk and PreadDisk on real files: same semantics, real errors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/huge_pages.h"
#include "tests/tier_disk/disk_rig.h"
#include "tier_disk/io/pread_disk.h"
#include "tier_disk/io/uring_disk.h"

namespace kvtier {
namespace {

using testing::DiskForm;
using testing::FormName;
using testing::FreshDirectory;
using testing::RunTask;

constexpr uint64_t kSegmentBytes = uint64_t{4} << 20;

class RealDiskTest : public ::testing::TestWithParam<DiskForm> {
 protected:
  RealDiskTest() : executor_("test-executor"), directory_(FreshDirectory("disk")) {}
  ~RealDiskTest() override {
    disk_.reset();
    files_.reset();
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
  }
  // Opens a disk over `files`, or over fresh segment files. Returns false to skip the test.
  bool OpenOver(std::span<const int> files) {
    if (GetParam() == DiskForm::kPread) {
      disk_ = std::make_unique<PreadDisk>(&executor_, files, kSegmentBytes);
      return true;
    }
    auto ring = UringDisk::Open(&executor_, files, kSegmentBytes);
    skip_ = ring.status();
    if (!ring.ok()) return false;
    disk_ = *std::move(ring);
    return true;
  }
  bool OpenFiles() {
    auto files = SegmentFiles::Open(
        {.directory = directory_, .segment_bytes = kSegmentBytes, .segment_count = 2});
    skip_ = files.status();
    if (!files.ok()) return false;
    files_ = *std::move(files);
    return OpenOver(files_->descriptors());
  }
  absl::Status Write(DiskAddress to, PageBuffer* from) {
    const std::array<std::span<const std::byte>, 1> buffers = {from->bytes()};
    return RunTask(&executor_, disk_->Write(IoClass::kOffload, to, buffers));
  }
  absl::Status Read(DiskAddress from, PageBuffer* into) {
    const std::array<std::span<std::byte>, 1> buffers = {into->bytes()};
    return RunTask(&executor_, disk_->Read(IoClass::kForeground, from, buffers));
  }

  ThreadExecutor executor_;
  const std::string directory_;
  std::unique_ptr<SegmentFiles> files_;
  std::unique_ptr<Disk> disk_;
  absl::Status skip_;
};

#define SKIP_UNLESS(opened) \
  if (!(opened)) GTEST_SKIP() << "SKIPPED, NOT PROVEN: " << skip_

TEST_P(RealDiskTest, WhatWasWrittenIsRead) {
  SKIP_UNLESS(OpenFiles());
  PageBuffer out = testing::DiskPayload(1, 40960);
  ASSERT_EQ(Write({SegmentId{1}, 8192}, &out), absl::OkStatus());
  PageBuffer in(40960);
  ASSERT_EQ(Read({SegmentId{1}, 8192}, &in), absl::OkStatus());
  EXPECT_TRUE(testing::HoldsDiskBlock(1, 40960, &in));
}

TEST_P(RealDiskTest, BuffersAreGatheredAndScatteredInOrder) {
  SKIP_UNLESS(OpenFiles());
  PageBuffer first = testing::DiskPayload(1, 4096);
  PageBuffer second = testing::DiskPayload(2, 8192);
  const std::array<std::span<const std::byte>, 2> out = {first.bytes(), second.bytes()};
  ASSERT_EQ(RunTask(&executor_, disk_->Write(IoClass::kOffload, {SegmentId{0}, 0}, out)),
            absl::OkStatus());
  PageBuffer third(8192);
  ASSERT_EQ(Read({SegmentId{0}, 4096}, &third), absl::OkStatus());
  EXPECT_TRUE(testing::HoldsDiskBlock(2, 8192, &third));
}

TEST_P(RealDiskTest, ManyAtOnceAllEnd) {
  SKIP_UNLESS(OpenFiles());
  constexpr size_t kIos = 200;  // More than the depth of the ring.
  std::vector<PageBuffer> slots;
  for (size_t i = 0; i < kIos; ++i) slots.push_back(testing::DiskPayload(i, 4096));
  const auto write_all = [&]() -> Task<bool> {
    TaskScope scope(&executor_);
    size_t good = 0;
    const auto one = [&](size_t i) -> Task<void> {
      const std::array<std::span<const std::byte>, 1> buffers = {slots[i].bytes()};
      const DiskAddress to{.segment = SegmentId{0}, .offset = i * 4096};
      const absl::Status written = co_await disk_->Write(IoClass::kOffload, to, buffers);
      if (written.ok()) ++good;
    };
    for (size_t i = 0; i < kIos; ++i) scope.Spawn(one(i));
    const absl::Time deadline = executor_.Now() + absl::Seconds(60);
    const bool idle = co_await scope.Idle(deadline);
    co_return idle&& good == kIos;
  };
  ASSERT_TRUE(RunTask(&executor_, write_all()));
  for (size_t i = 0; i < kIos; ++i) {
    PageBuffer in(4096);
    ASSERT_EQ(Read({SegmentId{0}, i * 4096}, &in), absl::OkStatus());
    ASSERT_TRUE(testing::HoldsDiskBlock(i, 4096, &in)) << i;
  }
}

TEST_P(RealDiskTest, AFileThatEndsEarlyIsUnavailable) {
  SKIP_UNLESS(OpenFiles());
  ASSERT_EQ(ftruncate(files_->descriptors()[0], 12288), 0);
  PageBuffer in(16384);
  EXPECT_TRUE(absl::IsUnavailable(Read({SegmentId{0}, 4096}, &in)));
  EXPECT_TRUE(absl::IsUnavailable(Read({SegmentId{0}, 65536}, &in)));
}

// Neighbours share a system call; one that fails must not make the others fail.
TEST_P(RealDiskTest, AFailureAmongNeighboursIsItsOwn) {
  SKIP_UNLESS(OpenFiles());
  constexpr uint64_t kGoodPages = 20;
  constexpr uint64_t kPages = 24;
  ASSERT_EQ(ftruncate(files_->descriptors()[0], kGoodPages * 4096), 0);
  std::vector<absl::Status> results(kPages);
  const auto read_all = [&]() -> Task<bool> {
    TaskScope scope(&executor_);
    const auto one = [&](uint64_t i) -> Task<void> {
      PageBuffer page(4096);
      const std::array<std::span<std::byte>, 1> buffers = {page.bytes()};
      const DiskAddress from{.segment = SegmentId{0}, .offset = i * 4096};
      results[i] = co_await disk_->Read(IoClass::kForeground, from, buffers);
    };
    for (uint64_t i = 0; i < kPages; ++i) scope.Spawn(one(i));
    const absl::Time deadline = executor_.Now() + absl::Seconds(60);
    co_return co_await scope.Idle(deadline);
  };
  ASSERT_TRUE(RunTask(&executor_, read_all()));
  for (uint64_t i = 0; i < kPages; ++i) EXPECT_EQ(results[i].ok(), i < kGoodPages) << results[i];
}

TEST_P(RealDiskTest, RegisteredAndOtherMemoryMixInOneIo) {
  SKIP_UNLESS(OpenFiles());
  constexpr uint64_t kBytes = 2 * kMinFixedBytes;
  PageBuffer region(2 * kBytes);
  const absl::Status registered = RunTask(&executor_, disk_->AddMemory({region.bytes()}));
  if (!registered.ok()) GTEST_SKIP() << "SKIPPED, NOT PROVEN: " << registered;
  const std::span<std::byte> out = region.bytes().first(kBytes);
  const std::span<std::byte> in = region.bytes().last(kBytes);
  testing::FillBlock(testing::kDiskTenant, testing::TestEngineKey(1), out);
  PageBuffer header = testing::DiskPayload(2, 4096);
  const std::array<std::span<const std::byte>, 2> from = {header.bytes(), out};
  ASSERT_EQ(RunTask(&executor_, disk_->Write(IoClass::kOffload, {SegmentId{0}, 4096}, from)),
            absl::OkStatus());
  PageBuffer page(4096);
  const std::array<std::span<std::byte>, 2> into = {page.bytes(), in};
  ASSERT_EQ(RunTask(&executor_, disk_->Read(IoClass::kForeground, {SegmentId{0}, 4096}, into)),
            absl::OkStatus());
  EXPECT_TRUE(testing::HoldsDiskBlock(2, 4096, &page));
  EXPECT_TRUE(testing::HoldsBlock(testing::kDiskTenant, testing::TestEngineKey(1), in));
}

// A slab that leaves a domain and comes back has other pages: nothing may be read into the old
// ones.
TEST_P(RealDiskTest, MemoryThatWasRemovedIsUsedAsAnyOther) {
  SKIP_UNLESS(OpenFiles());
  constexpr uint64_t kBytes = 2 * kMinFixedBytes;
  const int file = memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, kBytes), 0);
  void* const mapped = MapShared(file, kBytes, PROT_READ | PROT_WRITE);
  ASSERT_NE(mapped, MAP_FAILED);
  const std::span<std::byte> first(static_cast<std::byte*>(mapped), kBytes);
  PageBuffer other(kBytes);
  const std::span<std::byte> second = other.bytes();
  const absl::Status registered = RunTask(&executor_, disk_->AddMemory({first, second}));
  if (!registered.ok()) GTEST_SKIP() << "SKIPPED, NOT PROVEN: " << registered;
  testing::FillBlock(testing::kDiskTenant, testing::TestEngineKey(1), second);
  const std::array<std::span<const std::byte>, 1> from = {second};
  ASSERT_EQ(RunTask(&executor_, disk_->Write(IoClass::kOffload, {SegmentId{0}, 4096}, from)),
            absl::OkStatus());
  const auto remove = [&]() -> Task<bool> {
    co_await disk_->RemoveMemory(first);
    co_return true;
  };
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(RunTask(&executor_, remove()));
    ASSERT_EQ(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBytes), 0);
    if (round == 2) {
      ASSERT_TRUE(RunTask(&executor_, disk_->AddMemory({first})).ok());
    }
    const std::array<std::span<std::byte>, 1> into = {first};
    ASSERT_EQ(RunTask(&executor_, disk_->Read(IoClass::kForeground, {SegmentId{0}, 4096}, into)),
              absl::OkStatus());
    EXPECT_TRUE(testing::HoldsBlock(testing::kDiskTenant, testing::TestEngineKey(1), first))
        << "round " << round;
  }
  disk_.reset();
  munmap(mapped, kBytes);
  close(file);
}

// If any part of a split I/O fails, the whole has failed.
TEST_P(RealDiskTest, AnIoOfWhichOnePartFailsFails) {
  SKIP_UNLESS(OpenFiles());
  PageBuffer region(kMinFixedBytes);
  const absl::Status registered = RunTask(&executor_, disk_->AddMemory({region.bytes()}));
  if (!registered.ok()) GTEST_SKIP() << "SKIPPED, NOT PROVEN: " << registered;
  ASSERT_EQ(ftruncate(files_->descriptors()[0], 8192), 0);
  PageBuffer page(4096);
  const std::array<std::span<std::byte>, 2> into = {page.bytes(), region.bytes()};
  EXPECT_TRUE(absl::IsUnavailable(
      RunTask(&executor_, disk_->Read(IoClass::kForeground, {SegmentId{0}, 0}, into))));
}

TEST_P(RealDiskTest, AnInputOutputErrorIsUnavailable) {
  // Page zero of a process is never mapped, so reading it gives EIO.
  const int broken = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(broken, 0);
  SKIP_UNLESS(OpenOver(std::array<int, 2>{broken, broken}));
  PageBuffer in(4096);
  const absl::Status read = Read({SegmentId{0}, 0}, &in);
  EXPECT_TRUE(absl::IsUnavailable(read)) << read;
  disk_.reset();
  close(broken);
}

TEST_P(RealDiskTest, AFullFileSystemIsResourceExhausted) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  SKIP_UNLESS(OpenOver(std::array<int, 2>{full, full}));
  PageBuffer out = testing::DiskPayload(1, 4096);
  const absl::Status written = Write({SegmentId{0}, 0}, &out);
  EXPECT_TRUE(absl::IsResourceExhausted(written)) << written;
  disk_.reset();
  close(full);
}

INSTANTIATE_TEST_SUITE_P(Real, RealDiskTest, ::testing::Values(DiskForm::kUring, DiskForm::kPread),
                         [](const auto& form) { return FormName(form.param); });

}  // namespace
}  // namespace kvtier
