// These cases test the promises of Device about memory, its own and the host's, for every form of
// it.
#ifndef KVTIER_TESTS_TESTING_REGION_CASES_H_
#define KVTIER_TESTS_TESTING_REGION_CASES_H_

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/descriptor_pipe.h"
#include "tests/testing/device_rig.h"
#include "tests/testing/own_program.h"
#include "tier_gpu/device/adopted_ranges.h"

namespace kvtier::testing {

TEST_P(DeviceTest, ARegionGrowsAndShrinksByHandles) {
  ASSERT_EQ(region_->handles(), 2);
  EXPECT_EQ(region_->bytes(), 2 * kHandleBytes);
  FillWithNoise(1, host(0, 1024));
  const CopySegment old = Segment(kHandleBytes, host(0, 1024));
  const CopySegment fresh = Segment(2 * kHandleBytes, host(0, 1024));
  Onboard({&old, 1});
  std::byte* const start = region_->address();
  EXPECT_EQ(Submit(CopyDirection::kHostToDevice, {&fresh, 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(region_->Grow(), absl::OkStatus());
  ASSERT_EQ(region_->Grow(), absl::OkStatus());
  EXPECT_EQ(region_->Grow().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(region_->handles(), 4);
  Onboard({&fresh, 1});
  EXPECT_TRUE(std::ranges::equal(Held(2 * kHandleBytes, 1024), host(0, 1024)));
  region_->Shrink();
  region_->Shrink();
  EXPECT_EQ(Submit(CopyDirection::kHostToDevice, {&fresh, 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(region_->address(), start);
  EXPECT_TRUE(std::ranges::equal(Held(kHandleBytes, 1024), host(0, 1024)));
}

// A driver may refuse to copy over two allocations.
TEST_P(DeviceTest, ACopyIsCutAtTheBorderOfHandles) {
  FillWithNoise(2, host(0, 8192));
  const CopySegment whole = Segment(kHandleBytes - 4096, host(0, 8192));
  const std::array<CopySegment, 2> cut = {Segment(kHandleBytes - 4096, host(0, 4096)),
                                          Segment(kHandleBytes, host(4096, 4096))};
  EXPECT_EQ(Submit(kIn, {&whole, 1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Submit(kOut, {&whole, 1}).status().code(), absl::StatusCode::kInvalidArgument);
  Onboard(cut);
  EXPECT_TRUE(std::ranges::equal(Held(kHandleBytes - 4096, 4096), host(0, 4096)));
  EXPECT_TRUE(std::ranges::equal(Held(kHandleBytes, 4096), host(4096, 4096)));
}

TEST_P(DeviceTest, ShapesThatCannotBeAreInvalid) {
  for (const RegionShape& shape :
       {RegionShape{.handle_bytes = 0, .max_handles = 1},
        RegionShape{.handle_bytes = kRegionGranularity + 4096, .max_handles = 1},
        RegionShape{.handle_bytes = kRegionGranularity, .max_handles = 0},
        RegionShape{.handle_bytes = kRegionGranularity, .max_handles = kMaxRegionHandles + 1}}) {
    EXPECT_EQ(device_->CreateRegion(shape, 0).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(device_->ImportRegion(shape, {}, device_->uuid()).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_P(DeviceTest, WhatIsNoHandleIsNotImported) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  for (const int descriptor : {ends[0], -1}) {
    const std::array<int, 2> descriptors = {region_->descriptor(0), descriptor};
    EXPECT_EQ(device_->ImportRegion(region_->shape(), descriptors, device_->uuid()).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(region_->GrowBy(descriptor).code(), absl::StatusCode::kInvalidArgument);
  }
  const RegionShape larger = {.handle_bytes = 2 * kHandleBytes, .max_handles = 1};
  const std::array<int, 1> smaller = {region_->descriptor(0)};
  const absl::Status too_small = device_->ImportRegion(larger, smaller, device_->uuid()).status();
  EXPECT_EQ(too_small.code(), absl::StatusCode::kInvalidArgument) << too_small;
  EXPECT_EQ(region_->handles(), 2) << "an error changes nothing";
  for (const int end : ends) close(end);
}

TEST_P(DeviceTest, MemoryOutlivesTheRegionThatMadeIt) {
  FillWithNoise(3, host(0, 4096));
  const CopySegment segment = Segment(kHandleBytes, host(0, 4096));
  Onboard({&segment, 1});
  const std::array<int, 2> descriptors = {region_->descriptor(0), region_->descriptor(1)};
  std::unique_ptr<DeviceRegion> imported =
      Must(device_->ImportRegion(region_->shape(), descriptors, device_->uuid()));
  ASSERT_NE(imported, nullptr);
  region_ = std::move(imported);
  EXPECT_TRUE(std::ranges::equal(Held(kHandleBytes, 4096), host(0, 4096)));
  // Imports the region again, by the duplicates that the import keeps.
  const std::array<int, 2> kept = {region_->descriptor(0), region_->descriptor(1)};
  region_ = Must(device_->ImportRegion(region_->shape(), kept, device_->uuid()));
  EXPECT_TRUE(std::ranges::equal(Held(kHandleBytes, 4096), host(0, 4096)));
}

// The memory that this test adopts belongs to a region of the test.
TEST_P(DeviceTest, AdoptedMemoryIsCopiedInsideItsRangesAlone) {
  std::byte* const first = region_->address() + 4096;
  const std::array<std::span<std::byte>, 2> ranges = {std::span(first + 65536, 8192),
                                                      std::span(first, 8192)};
  std::unique_ptr<DeviceRegion> adopted = Must(device_->AdoptRegion(ranges));
  ASSERT_NE(adopted, nullptr);
  EXPECT_EQ(adopted->address(), first) << "it begins with the lowest";
  EXPECT_EQ(adopted->bytes(), 65536 + 8192);
  FillWithNoise(4, host(0, 8192));
  std::swap(region_, adopted);
  for (const uint64_t offset : {uint64_t{0}, uint64_t{65536}}) {
    const CopySegment whole = Segment(offset, host(0, 8192));
    Onboard({&whole, 1});
    EXPECT_TRUE(std::ranges::equal(Held(offset, 8192), host(0, 8192)));
  }
  for (const uint64_t outside : {8191, 8192, 65535, 65537, 65536 + 8192}) {
    const CopySegment segment = Segment(outside, host(0, outside == 65537 ? 8192 : 2));
    for (const CopyDirection direction :
         {CopyDirection::kHostToDevice, CopyDirection::kDeviceToHost}) {
      EXPECT_EQ(Submit(direction, {&segment, 1}).status().code(),
                absl::StatusCode::kInvalidArgument)
          << outside;
    }
  }
  std::swap(region_, adopted);  // The region is destroyed last.
}

TEST_P(DeviceTest, AdoptedMemoryIsNeitherGrownNorGivenAway) {
  const std::array<std::span<std::byte>, 1> ranges = {std::span(region_->address(), 4096)};
  const std::unique_ptr<DeviceRegion> adopted = Must(device_->AdoptRegion(ranges));
  EXPECT_EQ(adopted->descriptor(0), -1);
  EXPECT_EQ(adopted->Grow().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(adopted->GrowBy(region_->descriptor(0)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(adopted->bytes(), 4096);
}

TEST_P(DeviceTest, RangesThatCannotBeAreNotAdopted) {
  std::byte* const start = region_->address();
  const std::vector<std::vector<std::span<std::byte>>> wrong = {
      {},
      {std::span(start, 0)},
      {std::span(start, 4096), std::span(start + 4095, 4096)},
      {std::span(start, ~uint64_t{0})},
      std::vector<std::span<std::byte>>(kMaxAdoptedRanges + 1, std::span(start, 1))};
  for (const auto& ranges : wrong) {
    EXPECT_EQ(device_->AdoptRegion(ranges).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_P(DeviceTest, PinningIsRefusedWhereItCannotBe) {
  EXPECT_EQ(device_->Pin({}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_->Pin(host(0, 4096)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_->Pin(arena_.bytes()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_->Unpin(host(0, 4096)).code(), absl::StatusCode::kNotFound);
  const CopySegment segment = Segment(0, host(0, 4096));
  Onboard({&segment, 1});
}

TEST_P(DeviceTest, WhatWasUnpinnedIsNotCopiedAndCanBePinnedAgain) {
  const CopySegment segment = Segment(0, host(0, 4096));
  EXPECT_EQ(device_->Unpin(arena_.bytes()), absl::OkStatus());
  EXPECT_EQ(Submit(CopyDirection::kHostToDevice, {&segment, 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_->Unpin(arena_.bytes()).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(device_->Pin(arena_.bytes()), absl::OkStatus());
  Onboard({&segment, 1});
}

// This is the other process; only AnotherProcessSharesRegionAndWords runs it.
TEST_P(DeviceTest, DISABLED_TheOtherProcess) {
  const auto [shape, descriptors] = ReceiveShapeAndDescriptors(kInheritedSocket);
  ASSERT_GE(descriptors.size(), 2);
  // Maps the page as StepPage does.
  void* const page =
      mmap(nullptr, kSignalPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptors.back(), 0);
  ASSERT_NE(page, MAP_FAILED);
  const std::span words(static_cast<std::byte*>(page), kSignalPageBytes);
  const auto word = [words](size_t index) {
    return reinterpret_cast<SignalWord*>(&words[index * (kSignalPageBytes / kSignalWords)]);
  };
  ASSERT_EQ(device_->Pin(words), absl::OkStatus());
  region_.reset();
  region_ = Must(device_->ImportRegion(shape, std::span(descriptors).first(1), device_->uuid()));
  ASSERT_EQ(region_->GrowBy(descriptors[1]), absl::OkStatus());

  const CopySegment theirs = Segment(kHandleBytes, host(0, 4096));
  Must(device_->Await(Lane::kOffload, word(0), 1));
  Offload({&theirs, 1});
  FillWithNoise(1, host(4096, 4096));
  EXPECT_TRUE(std::ranges::equal(host(0, 4096), host(4096, 4096)));

  FillWithNoise(2, host(0, 4096));
  const CopySegment ours = Segment(0, host(0, 4096));
  Must(Submit(CopyDirection::kHostToDevice, {&ours, 1}));
  Must(device_->Signal(Lane::kOnboard, word(1), 1));
  Finish();
}

TEST_P(DeviceTest, AnotherProcessSharesRegionAndWords) {
  const std::array<int, 2> ends = SocketPair();
  const auto* const self = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = self->name();
  const pid_t child =
      StartOwnProgram({absl::StrCat("--gtest_filter=", self->test_suite_name(),
                                    ".DISABLED_TheOtherProcess", name.substr(name.find('/'))),
                       "--gtest_also_run_disabled_tests"},
                      ends[1]);
  SendShapeAndDescriptors(ends[0], region_->shape(),
                          {region_->descriptor(0), region_->descriptor(1), page_->descriptor()});
  FillWithNoise(1, host(0, 4096));
  const CopySegment there = Segment(kHandleBytes, host(0, 4096));
  Must(Submit(CopyDirection::kHostToDevice, {&there, 1}));
  Must(device_->Signal(Lane::kOnboard, page_->word(0), 1));

  const CopySegment back = Segment(0, host(4096, 4096));
  Must(device_->Await(Lane::kOffload, page_->word(1), 1));
  Must(Submit(CopyDirection::kDeviceToHost, {&back, 1}));
  EXPECT_EQ(WaitForOwnProgram(child), 0);
  page_->Release(1, 1);  // If the other process failed, this one must still end.
  Finish();
  FillWithNoise(2, host(8192, 4096));
  EXPECT_TRUE(std::ranges::equal(host(4096, 4096), host(8192, 4096)));
  for (const int end : ends) close(end);
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_REGION_CASES_H_
