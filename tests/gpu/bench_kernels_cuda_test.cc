// The benchmark's own kernels: what is timed does what it says. (The GEMM runs on tensor
// cores only; the benchmark compares it itself before it is timed.)
#include <gtest/gtest.h>

#ifdef KVTIER_HAVE_CUDA
#include <random>
#include <vector>

#include "bench/gpu_kernels.h"
#include "tests/testing/device_memory.h"
#endif

namespace kvtier::bench {
namespace {

#ifndef KVTIER_HAVE_CUDA

TEST(BenchKernelsTest, DoWhatTheySay) { GTEST_SKIP() << "NOT TESTED: this build has no CUDA"; }

#else

using testing::Noise;
using testing::OnDevice;

class BenchKernelsTest : public testing::DeviceFormTest {};

TEST_F(BenchKernelsTest, EveryRowIsCopiedWholeAndNothingElse) {
  const std::vector<uint64_t> sizes = {16, 512, 528, 4096, 16, 8208, 1024, 48, 64};
  std::vector<std::byte> expected(32 << 10, std::byte{0xa5});
  const std::vector<std::byte> noise = Noise(expected.size());
  OnDevice<std::byte> source(noise);
  OnDevice<std::byte> destination(expected);
  std::vector<RowCopy> rows;
  uint64_t at = 0;
  for (const uint64_t size : sizes) {
    rows.push_back({source.data() + at, destination.data() + at, size});
    std::copy_n(noise.begin() + static_cast<ptrdiff_t>(at), size,
                expected.begin() + static_cast<ptrdiff_t>(at));
    at += size + 16;
  }
  OnDevice<RowCopy> list(rows);
  ASSERT_EQ(CopyRowsOnDevice(list.data(), static_cast<uint32_t>(rows.size()), nullptr), 0);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_TRUE(destination.Read() == expected);
}

TEST_F(BenchKernelsTest, TheTriadAddsThreeTimesTheOther) {
  for (const uint64_t count : {4, 1024, 4100}) {
    std::vector<float> values(count);
    for (uint64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
    OnDevice<float> a(values);
    OnDevice<float> b(values);
    OnDevice<float> c(count);
    const TriadLaunch launch = {
        .a = a.data(), .b = b.data(), .c = c.data(), .count = count, .thread_blocks = 2};
    ASSERT_EQ(TriadOnDevice(launch, nullptr), 0);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (float& value : values) value *= 4;
    EXPECT_EQ(c.Read(), values);
  }
}

TEST_F(BenchKernelsTest, ACheckedBlockIsWrongInAsManyWordsAsWereChanged) {
  constexpr uint64_t kBytes = 2 * kStepPieceBytes;
  OnDevice<uint64_t> pool(4 * kBytes / 8);
  OnDevice<unsigned long long> wrong(std::vector<unsigned long long>{0});
  const BlockStepLaunch launch = {.pool = reinterpret_cast<std::byte*>(pool.data()),
                                  .block_bytes = kBytes,
                                  .slots = {3, 1},
                                  .values = {1000, ~uint64_t{0} - 5},
                                  .count = 2,
                                  .pause_ns = 1,
                                  .wrong_words = wrong.data()};
  ASSERT_EQ(FillBlocksOnDevice(launch, nullptr), 0);
  ASSERT_EQ(CheckBlocksOnDevice(launch, nullptr), 0);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(wrong.Read()[0], 0u);
  std::vector<uint64_t> words = pool.Read();
  EXPECT_EQ(words[3 * kBytes / 8 + 7], 1007u);
  words[3 * kBytes / 8 + 7] += 1;
  words[2 * kBytes / 8 - 1] ^= 64;
  pool.Write(words);
  ASSERT_EQ(CheckBlocksOnDevice(launch, nullptr), 0);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(wrong.Read()[0], 2u);
}

#endif

}  // namespace
}  // namespace kvtier::bench
