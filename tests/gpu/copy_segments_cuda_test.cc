// The CUDA form of kernels::CopySegments against its reference, on a GPU.
#include <gtest/gtest.h>

#include "kernels/copy_segments.h"
#ifdef KVTIER_HAVE_CUDA
#include <cuda_runtime_api.h>

#include <cstring>
#include <random>
#include <vector>

#include "tests/testing/copy_cases.h"
#endif

namespace kvtier::kernels {
namespace {

#ifndef KVTIER_HAVE_CUDA

TEST(CopySegmentsOnDeviceTest, MatchesTheReference) {
  GTEST_SKIP() << "NOT TESTED: this build has no CUDA";
}

#else

using testing::CopyCase;
using testing::CopyCases;

// Device memory that goes with its holder.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(size_t count) {
    EXPECT_EQ(cudaMalloc(&data_, (count + 1) * sizeof(T)), cudaSuccess);
  }
  ~OnDevice() { EXPECT_EQ(cudaFree(data_), cudaSuccess); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  T* data() { return static_cast<T*>(data_); }
  void Write(const std::vector<T>& from) {
    EXPECT_EQ(cudaMemcpy(data_, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  std::vector<T> Read(size_t count) {
    std::vector<T> to(count);
    EXPECT_EQ(cudaMemcpy(to.data(), data_, count * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return to;
  }

 private:
  void* data_ = nullptr;
};

class CopySegmentsOnDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    (void)cudaGetLastError();
    if (error != cudaSuccess || count == 0) {
      GTEST_SKIP() << "NOT TESTED: no GPU (" << cudaGetErrorString(error) << ")";
    }
  }
};

std::vector<std::byte> Noise(size_t bytes) {
  std::mt19937_64 random(bytes);
  std::vector<std::byte> noise(bytes);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
  return noise;
}

void ExpectTheReferencesBytes(const CopyCase& shape, uint32_t thread_blocks) {
  SCOPED_TRACE(::testing::Message()
               << shape.segments << " segments, " << shape.runs << " runs of " << shape.run_bytes
               << " bytes, strides " << shape.source_stride << " and " << shape.destination_stride
               << ", " << thread_blocks << " thread blocks");
  const std::vector<std::byte> source = Noise(shape.source_bytes());
  const std::vector<std::byte> poison(shape.destination_bytes(), std::byte{0xa5});
  std::vector<std::byte> expected = poison;
  const auto on_host = shape.Segments(source.data(), expected.data());
  ASSERT_EQ(CopySegmentsOnHost({.segments = on_host.data(), .count = shape.segments}), 0);

  OnDevice<std::byte> device_source(source.size());
  OnDevice<std::byte> device_destination(poison.size());
  device_source.Write(source);
  device_destination.Write(poison);
  const auto segments = shape.Segments(device_source.data(), device_destination.data());
  OnDevice<StridedSegment> list(segments.size());
  list.Write(segments);
  ASSERT_EQ(CopySegmentsOnDevice(
                {.segments = list.data(), .count = shape.segments, .thread_blocks = thread_blocks}),
            0);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(device_destination.Read(poison.size()), expected);
}

TEST_F(CopySegmentsOnDeviceTest, MatchesTheReference) {
  for (const CopyCase& shape : CopyCases()) {
    for (const uint32_t thread_blocks : {1, 3, 8, 132}) {
      ExpectTheReferencesBytes(shape, thread_blocks);
    }
  }
}

TEST_F(CopySegmentsOnDeviceTest, ALaunchThatCannotRunIsRefused) {
  const StridedSegment segment;
  EXPECT_EQ(CopySegmentsOnDevice({.segments = nullptr, .count = 1}), kInvalidLaunch);
  EXPECT_EQ(CopySegmentsOnDevice({.segments = &segment, .count = 1, .thread_blocks = 0}),
            kInvalidLaunch);
}

#endif

}  // namespace
}  // namespace kvtier::kernels
