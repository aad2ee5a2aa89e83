// Tests that the fake GPU finds the mistakes that it is made for.
#include "tests/testing/fake_cuda.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "tests/testing/device_rig.h"
#include "tests/testing/fake_cuda_gpu.h"
#include "tier_gpu/device/cuda_copies.h"
#include "tier_gpu/device/cuda_device.h"
#include "tier_gpu/device/cuda_driver.h"
#include "tier_gpu/device/cuda_lane.h"

namespace kvtier::testing {
namespace {

constexpr uint64_t kBytes = 4096;

class StrictCudaTest : public ::testing::Test {
 protected:
  StrictCudaTest() {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&device_, kBytes), cudaSuccess);
    void* host = nullptr;
    EXPECT_EQ(cudaHostAlloc(&host, kBytes, cudaHostAllocPortable | cudaHostAllocMapped),
              cudaSuccess);
    host_memory_ = host;
    EXPECT_EQ(cudaHostGetDevicePointer(&host_, host, 0), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), cudaSuccess);
  }
  ~StrictCudaTest() override {
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(host_memory_), cudaSuccess);
    EXPECT_EQ(cudaFree(device_), cudaSuccess);
    (void)cudaGetLastError();
  }

  // Returns whether CUDA takes the copy.
  bool CopyBytes(void* to, const void* from, uint64_t bytes) {
    CudaCopies copies;
    copies.Add(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
    std::vector<CudaCommand> commands;
    std::move(copies).AppendTo(&commands, CudaCommand::Where::kLane, stream_);
    return commands.front().put().ok();
  }
  bool Copy(uint64_t to, uint64_t from, uint64_t bytes) {
    return CopyBytes(static_cast<std::byte*>(device_) + to, static_cast<std::byte*>(host_) + from,
                     bytes);
  }

  void* device_ = nullptr;
  void* host_ = nullptr;         // Device address of the memory.
  void* host_memory_ = nullptr;  // Host address of the memory.
  cudaStream_t stream_ = nullptr;
};

TEST_F(StrictCudaTest, ACopyThatLeavesAnAllocationOnEitherSideIsRefused) {
  EXPECT_TRUE(Copy(0, 0, kBytes));
  EXPECT_FALSE(Copy(1, 0, kBytes));
  EXPECT_FALSE(Copy(0, 1, kBytes));
  EXPECT_FALSE(CopyBytes(device_, host_memory_, 1)) << "an address of the host's";
  EXPECT_EQ(cudaMemset2DAsync(device_, 512, 0, 512, 8, stream_), cudaSuccess);
  EXPECT_EQ(cudaMemset2DAsync(device_, 512, 0, 512, 9, stream_), cudaErrorInvalidValue);
}

TEST_F(StrictCudaTest, MemoryThatIsFreedUnderACopyEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // Needed because the GPU is a thread.
  EXPECT_DEATH(
      {
        // The copy's turn comes when the word is raised.
        auto* const word = new (host_memory_) SignalWord(0);
        const auto driver = *CudaDriver::Find();
        const auto context = *CudaContext::Open(driver, 0);
        (void)context.CheckAbilities();
        (void)driver.wait_word(stream_, reinterpret_cast<CUdeviceptr>(host_), 1,
                               CU_STREAM_WAIT_VALUE_GEQ);
        (void)Copy(0, 64, 64);
        (void)cudaFree(device_);
        word->store(1);
        (void)cudaStreamSynchronize(stream_);
      },
      "CHECK failed");
}

TEST_F(StrictCudaTest, MappedMemoryWithoutAccessIsNotCopied) {
  const auto driver = *CudaDriver::Find();
  const auto context = *CudaContext::Open(driver, 0);
  ASSERT_EQ(context.CheckAbilities(), absl::OkStatus());
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUdeviceptr start = 0;
  std::array<CUmemGenericAllocationHandle, 2> handles{};
  constexpr uint64_t kHandle = kRegionGranularity;
  ASSERT_EQ(driver.reserve(&start, 2 * kHandle, kHandle, 0, 0), CUDA_SUCCESS);
  for (size_t i = 0; i < handles.size(); ++i) {
    ASSERT_EQ(driver.create(&handles[i], kHandle, &properties, 0), CUDA_SUCCESS);
    ASSERT_EQ(driver.map(start + i * kHandle, kHandle, 0, handles[i], 0), CUDA_SUCCESS);
  }
  const auto copied = [&](uint64_t at, uint64_t bytes) {
    void* const to = reinterpret_cast<void*>(start + at);  // NOLINT(performance-no-int-to-ptr)
    return CopyBytes(to, host_, bytes);
  };
  EXPECT_FALSE(copied(0, 1));
  CUmemAccessDesc access{.location = properties.location,
                         .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(driver.set_access(start, 2 * kHandle, &access, 1), CUDA_SUCCESS);
  EXPECT_TRUE(copied(0, 1));
  EXPECT_FALSE(copied(kHandle - 1, 2)) << "over the border of two handles";
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  for (size_t i = 0; i < handles.size(); ++i) {
    EXPECT_EQ(driver.unmap(start + i * kHandle, kHandle), CUDA_SUCCESS);
    EXPECT_EQ(driver.release(handles[i]), CUDA_SUCCESS);
  }
  EXPECT_EQ(driver.free_addresses(start, 2 * kHandle), CUDA_SUCCESS);
}

TEST_F(StrictCudaTest, AGpuWithoutWhatADeviceNeedsIsNotOpened) {
  MonotonicClock clock;
  for (const CUdevice_attribute attribute :
       {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS}) {
    fake_cuda::SetLacking(attribute);
    EXPECT_EQ(OpenCudaDevice({}, &clock).status().code(), absl::StatusCode::kUnavailable);
  }
  fake_cuda::SetLacking(std::nullopt);
  EXPECT_TRUE(OpenCudaDevice({}, &clock).ok());
}

// Tests the rig's rescuer, for a GPU whose driver holds up a call.
TEST(RescuerTest, ReleasesAllWordsAndFailsTheTest) {
  const auto page = *SignalPage::Create();
  EXPECT_NONFATAL_FAILURE_ON_ALL_THREADS(
      {
        const Rescuer rescuer(page.get(), absl::ZeroDuration());
        while (page->word(0)->load() == 0) std::this_thread::yield();
      },
      "held up");
}

}  // namespace
}  // namespace kvtier::testing
