#include "tier_gpu/device/open_device.h"

#include <gtest/gtest.h>

namespace kvtier {
namespace {

class OpenDeviceTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Device>> Open(absl::string_view name) {
    return OpenDevice(name, &clock_);
  }
  MonotonicClock clock_;
};

TEST_F(OpenDeviceTest, EmulatedIsAlwaysThere) {
  const auto device = Open("emulated");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->name(), "emulated");
}

TEST_F(OpenDeviceTest, KernelsAreForWhoAsksForThem) {
  for (const char* name : {"emulated", "auto"}) {
    EXPECT_FALSE((*OpenDevice(name, &clock_))->has_kernels()) << name;
    EXPECT_TRUE((*OpenDevice(name, &clock_, {.kernels = true}))->has_kernels()) << name;
  }
}

TEST_F(OpenDeviceTest, AutoIsTheGpuOrElseEmulated) {
  const auto gpu = Open("cuda:0");
  const auto device = Open("auto");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->name(), gpu.ok() ? (*gpu)->name() : "emulated");
}

TEST_F(OpenDeviceTest, AGpuThatIsNotThereIsUnavailableAndSaysWhy) {
  const auto device = Open("cuda:999");
  EXPECT_EQ(device.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(device.status().message(), "");
}

TEST_F(OpenDeviceTest, AnyOtherNameIsInvalid) {
  for (const char* name :
       {"", "cuda", "cuda:", "cuda:-1", "cuda:x", "cuda:0x", "Emulated", "gpu"}) {
    EXPECT_EQ(Open(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace kvtier
