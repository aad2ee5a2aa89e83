// Device memory and launches for tests of device forms. It is compiled twice: with CUDA's runtime
// for a GPU, and with tests/testing/host_cuda, where the host runs the kernels.
#ifndef KVTIER_TESTS_TESTING_DEVICE_MEMORY_H_
#define KVTIER_TESTS_TESTING_DEVICE_MEMORY_H_

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "tests/testing/patience.h"

namespace kvtier::testing {

// Returns the numbers of thread blocks to test; fewer on a sanitized host, which is slow.
inline std::vector<uint32_t> ThreadBlockCounts() {
  if (kSanitized) return {1, 3};
  return {1, 3, 8, 33};
}

// Device memory that is freed with this object.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(size_t count) : count_(count) {
    EXPECT_EQ(cudaMalloc(&data_, (count + 1) * sizeof(T)), cudaSuccess);
  }
  explicit OnDevice(std::span<const T> from) : OnDevice(from.size()) { Write(from); }
  ~OnDevice() { EXPECT_EQ(cudaFree(data_), cudaSuccess); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  T* data() { return static_cast<T*>(data_); }
  void Write(std::span<const T> from) {
    EXPECT_EQ(cudaMemcpy(data_, from.data(), from.size_bytes(), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  std::vector<T> Read() {
    std::vector<T> to(count_);
    EXPECT_EQ(cudaMemcpy(to.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return to;
  }

 private:
  const size_t count_;
  void* data_ = nullptr;
};

// Skips its tests where kernels cannot run, and says why.
class DeviceFormTest : public ::testing::Test {
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

inline std::vector<std::byte> Noise(size_t bytes) {
  std::mt19937_64 random(bytes);
  std::vector<std::byte> noise(bytes);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
  return noise;
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_DEVICE_MEMORY_H_
