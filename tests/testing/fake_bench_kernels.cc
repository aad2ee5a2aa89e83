// The benchmark's own kernels on the fake GPU, one element after the other.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>
#include <span>

#include "bench/gpu_kernels.h"
#include "bench/step_compute.h"
#include "kernels/float_formats.h"
#include "tests/testing/fake_cuda.h"
#include "tests/testing/fake_cuda_gpu.h"

namespace fake = kvtier::testing::fake_cuda;

namespace kvtier::bench {
namespace {

template <typename T>
T* HostSideOf(T* device) {
  return reinterpret_cast<T*>(fake::HostSide(reinterpret_cast<const void*>(device)));
}

// The loop of a call a segment fills its stream.
[[maybe_unused]] const bool callers_wait = (fake::LetCallersWait(), true);

std::span<std::byte> BlockOf(const BlockStepLaunch& launch, uint32_t i) {
  return {HostSideOf(launch.pool + launch.slots[i] * launch.block_bytes), launch.block_bytes};
}

}  // namespace

int CopyRowsOnDevice(const RowCopy* rows, uint32_t count, void* stream) {
  return fake::EnqueueWork(stream, [rows, count] {
    for (const RowCopy& row : std::span(HostSideOf(rows), count)) {
      if (fake::LosesWrite("CopyRowsOnDevice", row.destination)) continue;
      std::memcpy(HostSideOf(row.destination), HostSideOf(row.source), row.bytes);
    }
  });
}

int GemmOnDevice(const GemmLaunch& launch, void* stream) {
  return fake::EnqueueWork(stream, [launch] {
    const uint64_t n = launch.n;
    const uint16_t* const a = HostSideOf(launch.a);
    const uint16_t* const b = HostSideOf(launch.b);
    float* const c = HostSideOf(launch.c);
    for (uint64_t row = 0; row < n; ++row) {
      std::memset(c + row * n, 0, n * sizeof(float));
      for (uint64_t k = 0; k < n; ++k) {
        const float left = kernels::FloatFromBf16(a[row * n + k]);
        for (uint64_t column = 0; column < n; ++column) {
          c[row * n + column] += left * kernels::FloatFromBf16(b[k * n + column]);
        }
      }
    }
  });
}

int TriadOnDevice(const TriadLaunch& launch, void* stream) {
  return fake::EnqueueWork(stream, [launch] {
    const float* const a = HostSideOf(launch.a);
    const float* const b = HostSideOf(launch.b);
    float* const c = HostSideOf(launch.c);
    for (uint64_t i = 0; i < launch.count; ++i) c[i] = a[i] + 3 * b[i];
  });
}

int FillBlocksOnDevice(const BlockStepLaunch& launch, void* stream) {
  return fake::EnqueueWork(stream, [launch] {
    for (uint32_t i = 0; i < launch.count; ++i) FillWords(BlockOf(launch, i), launch.values[i]);
  });
}

int CheckBlocksOnDevice(const BlockStepLaunch& launch, void* stream) {
  return fake::EnqueueWork(stream, [launch] {
    for (uint32_t i = 0; i < launch.count; ++i) {
      *HostSideOf(launch.wrong_words) += WrongWords(BlockOf(launch, i), launch.values[i]);
    }
  });
}

}  // namespace kvtier::bench
