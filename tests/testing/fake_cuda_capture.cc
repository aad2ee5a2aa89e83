// Capture of graphs on the fake GPU: decides what a thread may call while a stream captures.
#include <cuda_runtime_api.h>

#include <mutex>
#include <utility>

#include "core/check.h"
#include "tests/testing/fake_cuda.h"
#include "tests/testing/fake_cuda_gpu.h"

namespace kvtier::testing::fake_cuda {
namespace {

struct Capture {
  std::mutex mu;
  bool active = false;
  bool valid = true;
  void* stream = nullptr;
};

Capture& capture() {
  static Capture one;
  return one;
}

thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;

}  // namespace

void BeginCapture(void* stream) {
  const std::lock_guard lock(capture().mu);
  KVT_CHECK(!capture().active && stream != nullptr);
  capture().active = true;
  capture().valid = true;
  capture().stream = stream;
}

bool EndCapture() {
  const std::lock_guard lock(capture().mu);
  KVT_CHECK(std::exchange(capture().active, false));
  return capture().valid;
}

cudaError_t RefusedByCapture() {
  const std::lock_guard lock(capture().mu);
  if (!capture().active || mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  capture().valid = false;
  return Answer(cudaErrorStreamCaptureUnsupported);
}

bool Captures(void* stream) {
  const std::lock_guard lock(capture().mu);
  return capture().active && capture().stream == stream;
}

}  // namespace kvtier::testing::fake_cuda

namespace fake = kvtier::testing::fake_cuda;

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  const std::lock_guard lock(fake::capture().mu);
  if (!fake::capture().active) return cudaSuccess;
  // The default stream would wait for the stream that captures.
  if (stream == nullptr) return fake::Answer(cudaErrorStreamCaptureImplicit);
  if (fake::capture().stream == stream) *status = cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, fake::mode);
  return cudaSuccess;
}
