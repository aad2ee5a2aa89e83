#include "tier_gpu/device/emulated_region.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

namespace kvtier {
namespace {

constexpr uint64_t kHandle = kRegionGranularity;
constexpr RegionShape kShape = {.handle_bytes = kHandle, .max_handles = 3};

std::unique_ptr<EmulatedRegion> NewRegion(size_t handles) {
  auto region = *EmulatedRegion::Reserve(kShape, nullptr);
  for (size_t i = 0; i < handles; ++i) EXPECT_EQ(region->Grow(), absl::OkStatus());
  return region;
}

TEST(EmulatedRegionTest, ARegionGrowsAndShrinksByWholeHandlesInPlace) {
  const auto region = NewRegion(1);
  std::byte* const start = region->address();
  start[0] = std::byte{1};
  ASSERT_EQ(region->Grow(), absl::OkStatus());
  EXPECT_EQ(region->bytes(), 2 * kHandle);
  EXPECT_EQ(region->address(), start);
  start[2 * kHandle - 1] = std::byte{2};
  region->Shrink();
  ASSERT_EQ(region->Grow(), absl::OkStatus());
  EXPECT_EQ(start[0], std::byte{1});
  EXPECT_EQ(start[2 * kHandle - 1], std::byte{0}) << "it is new memory";
}

TEST(EmulatedRegionTest, AShapeHasOnlySoManyHandles) {
  const auto region = NewRegion(3);
  EXPECT_EQ(region->Grow().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(region->GrowBy(region->descriptor(0)).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(region->handles(), 3u);
}

TEST(EmulatedRegionTest, ShapesThatNoDriverHasAreInvalid) {
  for (const RegionShape& shape :
       {RegionShape{.handle_bytes = 0}, RegionShape{.handle_bytes = kHandle + 4096},
        RegionShape{.handle_bytes = kHandle, .max_handles = 0},
        RegionShape{kHandle, kMaxRegionHandles + 1}}) {
    EXPECT_EQ(EmulatedRegion::Reserve(shape, nullptr).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(EmulatedRegionTest, AnotherProcessMapsTheSameMemoryAndItsDeathLosesNothing) {
  const auto region = NewRegion(2);
  region->address()[kHandle] = std::byte{'a'};
  const pid_t worker = fork();
  if (worker == 0) {
    const auto imported = *EmulatedRegion::Reserve(kShape, nullptr);
    for (size_t i = 0; i < 2; ++i) {
      if (!imported->GrowBy(region->descriptor(i)).ok()) _exit(1);
    }
    if (imported->address()[kHandle] != std::byte{'a'}) _exit(2);
    imported->address()[kHandle] = std::byte{'b'};
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(worker, &status, 0), worker);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(region->address()[kHandle], std::byte{'b'});
}

TEST(EmulatedRegionTest, MemoryOutlivesItsOwnerWhileSomebodyMapsIt) {
  auto owner = NewRegion(1);
  const auto imported = *EmulatedRegion::Reserve(kShape, nullptr);
  ASSERT_EQ(imported->GrowBy(owner->descriptor(0)), absl::OkStatus());
  owner->address()[7] = std::byte{9};
  owner.reset();
  // A restarted agent takes its pool back from a living worker in this way.
  const auto again = *EmulatedRegion::Reserve(kShape, nullptr);
  ASSERT_EQ(again->GrowBy(imported->descriptor(0)), absl::OkStatus());
  EXPECT_EQ(again->address()[7], std::byte{9});
}

TEST(EmulatedRegionTest, OnlySealedHandlesOfTheRightSizeAreMapped) {
  const auto region = NewRegion(0);
  const int unsealed = memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(unsealed, kHandle), 0);
  EXPECT_EQ(region->GrowBy(unsealed).code(), absl::StatusCode::kInvalidArgument);
  const auto larger = *EmulatedRegion::Reserve({.handle_bytes = 2 * kHandle}, nullptr);
  ASSERT_EQ(larger->Grow(), absl::OkStatus());
  EXPECT_EQ(region->GrowBy(larger->descriptor(0)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(region->GrowBy(-1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(region->handles(), 0u);
  close(unsealed);
}

TEST(EmulatedRegionTest, AHandleCannotBeCutOff) {
  const auto region = NewRegion(1);
  EXPECT_NE(ftruncate(region->descriptor(0), 4096), 0);
  EXPECT_EQ(errno, EPERM);
}

TEST(EmulatedRegionTest, MoreMemoryThanThereIsIsResourceExhausted) {
  const auto region = EmulatedRegion::Reserve({uint64_t{1} << 60, 1}, nullptr);
  EXPECT_EQ(region.status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace kvtier
