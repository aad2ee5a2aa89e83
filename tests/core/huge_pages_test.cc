#include "core/huge_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <span>

namespace kvtier {
namespace {

constexpr uint64_t kBytes = 2 * kHugePageBytes + 4096;

// The tests map a memfd by MapShared().
class HugePagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_GE(fd_, 0);
    ASSERT_EQ(ftruncate(fd_, kBytes), 0);
    void* const at = MapShared(fd_, kBytes, PROT_READ | PROT_WRITE);
    ASSERT_NE(at, MAP_FAILED);
    memory_ = {static_cast<std::byte*>(at), kBytes};
  }
  void TearDown() override {
    EXPECT_EQ(munmap(memory_.data(), memory_.size()), 0);
    close(fd_);
  }
  bool IsResident(uint64_t offset) {
    unsigned char resident = 0;
    EXPECT_EQ(mincore(memory_.data() + offset, 4096, &resident), 0);
    return (resident & 1) != 0;
  }

  const int fd_ = memfd_create("huge_pages_test", MFD_CLOEXEC);
  std::span<std::byte> memory_;
};

TEST_F(HugePagesTest, FileAndMemoryAreAlignedAlike) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory_.data()) % kHugePageBytes, 0);
}

TEST_F(HugePagesTest, WhatIsThereStays) {
  memory_[5000] = std::byte{7};
  memory_[kHugePageBytes + 1] = std::byte{8};
  (void)TakeHugePages(memory_);
  EXPECT_EQ(memory_[5000], std::byte{7});
  EXPECT_EQ(memory_[kHugePageBytes + 1], std::byte{8});
  EXPECT_EQ(memory_[0], std::byte{0});
}

TEST_F(HugePagesTest, WholePiecesAreFilledAndTheRestIsNot) {
  if (!TakeHugePages(memory_)) GTEST_SKIP() << "this kernel gives memfds no huge pages";
  for (uint64_t at = 0; at < 2 * kHugePageBytes; at += 4096) EXPECT_TRUE(IsResident(at));
  EXPECT_FALSE(IsResident(2 * kHugePageBytes));
}

TEST_F(HugePagesTest, LessThanOnePieceHasNoHugePages) {
  EXPECT_TRUE(TakeHugePages(memory_.first(kHugePageBytes - 4096)));
  EXPECT_FALSE(IsResident(0));
}

TEST(MapSharedTest, AMappingThatCannotBeIsRefused) {
  EXPECT_EQ(MapShared(-1, kBytes, PROT_READ), MAP_FAILED);
  EXPECT_EQ(MapShared(-1, 4096, PROT_READ), MAP_FAILED);
}

}  // namespace
}  // namespace kvtier
