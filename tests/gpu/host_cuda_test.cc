// Tests that the host runner of the kernels reveals their mistakes.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/testing/device_memory.h"

namespace kvtier::testing::host_cuda {
namespace {

constexpr uint32_t kThreads = 64;
using Order = std::vector<uint32_t>;

class HostCudaTest : public DeviceFormTest {};

void Start(void (*kernel)(uint32_t*), uint32_t thread_blocks, uint32_t* out) {
  cudaLaunchConfig_t config;
  config.gridDim.x = thread_blocks;
  config.blockDim.x = kThreads;
  ASSERT_EQ(cudaLaunchKernelEx(&config, kernel, out), cudaSuccess);
}

// Makes each thread write its number and read another's.
__global__ void Reverse(uint32_t* out) {
  __shared__ uint32_t shared[kThreads];
  shared[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[blockIdx.x * kThreads + threadIdx.x] = shared[kThreads - 1 - threadIdx.x];
}
__global__ void ReverseTooEarly(uint32_t* out) {
  __shared__ uint32_t shared[kThreads];
  shared[threadIdx.x] = threadIdx.x;
  out[blockIdx.x * kThreads + threadIdx.x] = shared[kThreads - 1 - threadIdx.x];
}

bool IsReversed(const Order& out) {
  for (uint32_t i = 0; i < out.size(); ++i) {
    if (out[i] != kThreads - 1 - i % kThreads) return false;
  }
  return true;
}

TEST_F(HostCudaTest, ABarrierIsOneAndAMissingOneShows) {
  uint32_t wrong = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SetOrder(seed);
    Order out(size_t{3} * kThreads);
    Start(Reverse, 3, out.data());
    EXPECT_TRUE(IsReversed(out));
    Start(ReverseTooEarly, 3, out.data());
    wrong += IsReversed(out) ? 0 : 1;
  }
  EXPECT_EQ(wrong, 20U);
}

__global__ void Arrive(uint32_t* out) {
  const uint32_t place = out[0]++;
  out[1 + place] = blockIdx.x * kThreads + threadIdx.x;
}

TEST_F(HostCudaTest, TheSeedDrawsTheOrderOfThreadsAndThreadBlocks) {
  std::array<Order, 3> orders;
  for (uint32_t i = 0; i < 3; ++i) {
    SetOrder(i / 2);
    orders[i].resize(1 + size_t{4} * kThreads);
    Start(Arrive, 4, orders[i].data());
    EXPECT_EQ(orders[i][0], 4 * kThreads);
  }
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_NE(orders[0], orders[2]);
  EXPECT_NE(orders[0][1] / kThreads, orders[0].back() / kThreads);
}

__global__ void Shuffle(uint32_t* out) {
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t sum = __shfl_sync(kAllLanes, lane, 5) +                // 5
                       __shfl_xor_sync(kAllLanes, lane, 1) +            // Lane ^ 1.
                       __shfl_down_sync(kAllLanes, lane, 31) +          // 31 for lane 0.
                       __shfl_up_sync(kAllLanes, lane, 31) +            // 0 for lane 31.
                       __popc(__ballot_sync(kAllLanes, lane < 7)) +     // 7
                       (__syncthreads_or(threadIdx.x == 40) ? 1 : 0) +  // 1
                       (__syncthreads_or(0) ? 1 : 0);                   // 0
  out[threadIdx.x] = sum;
}

TEST_F(HostCudaTest, LanesExchangeValues) {
  Order out(kThreads);
  Start(Shuffle, 1, out.data());
  for (uint32_t i = 0; i < kThreads; ++i) {
    const uint32_t lane = i % kLanes;
    const uint32_t down = lane == 0 ? 31 : lane;
    const uint32_t up = lane == 31 ? 0 : lane;
    EXPECT_EQ(out[i], 5 + (lane ^ 1) + down + up + 7 + 1);
  }
}

__global__ void HalfMeets(uint32_t* /*out*/) {
  if (threadIdx.x < kThreads / 2) __syncthreads();
}
__global__ void LanesPart(uint32_t* out) {
  if (threadIdx.x % 2 == 0) {
    __syncwarp();
  } else {
    out[0] = __shfl_sync(kAllLanes, out[0], 0);
  }
}
__global__ void SomeLanes(uint32_t* out) { out[0] = __shfl_sync(0xffff, out[0], 0); }

TEST_F(HostCudaTest, ThreadsThatWouldWaitForeverEndTheProgram) {
  Order out(1);
  EXPECT_DEATH(Start(HalfMeets, 1, out.data()), "wait for others");
  EXPECT_DEATH(Start(LanesPart, 1, out.data()), "different collectives");
  EXPECT_DEATH(Start(SomeLanes, 1, out.data()), "whole warp");
}

TEST_F(HostCudaTest, AccessesOutsideOfAnAllocationShow) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 40), cudaSuccess);
  std::array<char, 41> host{};
  EXPECT_EQ(cudaMemcpy(memory, host.data(), 41, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host.data(), memory, 41, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host.data(), memory, 40, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_DEATH(
      {
        *(static_cast<char*>(memory) + 40) = 1;
        (void)cudaFree(memory);
      },
      "outside of an allocation");
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue) << "twice";
}

}  // namespace
}  // namespace kvtier::testing::host_cuda
