#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include "bench/gpu_stream.h"

namespace kvtier::bench {

void CheckCuda(const char* what, int error) {
  if (error == 0) return;
  std::fprintf(stderr, "gpu_bench: %s: %s\n", what,
               cudaGetErrorString(static_cast<cudaError_t>(error)));
  std::abort();
}

void UseGpu(int ordinal) { CheckCuda("cudaSetDevice", cudaSetDevice(ordinal)); }

uint32_t GpuProcessors() {
  int gpu = 0;
  CheckCuda("cudaGetDevice", cudaGetDevice(&gpu));
  int processors = 0;
  CheckCuda("cudaDeviceGetAttribute",
            cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, gpu));
  return static_cast<uint32_t>(processors);
}

std::byte* OnGpu(std::byte* host) {
  void* device = nullptr;
  CheckCuda("cudaHostGetDevicePointer", cudaHostGetDevicePointer(&device, host, 0));
  return static_cast<std::byte*>(device);
}

void WriteToGpu(std::byte* to, std::span<const std::byte> from) {
  CheckCuda("cudaMemcpy", cudaMemcpy(to, from.data(), from.size(), cudaMemcpyHostToDevice));
  // From pageable memory it may return while its last piece is on the way, and our streams
  // do not wait for its stream.
  CheckCuda("cudaStreamSynchronize", cudaStreamSynchronize(nullptr));
}

void ReadFromGpu(const std::byte* from, std::span<std::byte> into) {
  CheckCuda("cudaMemcpy", cudaMemcpy(into.data(), from, into.size(), cudaMemcpyDeviceToHost));
}

GpuMemory::GpuMemory(uint64_t bytes) {
  void* data = nullptr;
  CheckCuda("cudaMalloc", cudaMalloc(&data, bytes));
  data_ = static_cast<std::byte*>(data);
}

GpuMemory::~GpuMemory() { CheckCuda("cudaFree", cudaFree(data_)); }

// The lowest priority, as an engine's own streams have it.
GpuStream::GpuStream() {
  cudaStream_t stream = nullptr;
  CheckCuda("cudaStreamCreateWithPriority",
            cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
  stream_ = stream;
  for (void** event : {&begin_, &end_}) {
    cudaEvent_t made = nullptr;
    CheckCuda("cudaEventCreate", cudaEventCreate(&made));
    *event = made;
  }
}

GpuStream::~GpuStream() {
  Wait();
  CheckCuda("cudaEventDestroy", cudaEventDestroy(static_cast<cudaEvent_t>(begin_)));
  CheckCuda("cudaEventDestroy", cudaEventDestroy(static_cast<cudaEvent_t>(end_)));
  CheckCuda("cudaStreamDestroy", cudaStreamDestroy(static_cast<cudaStream_t>(stream_)));
}

void GpuStream::Copy(std::byte* destination, const std::byte* source, uint64_t bytes) {
  CheckCuda("cudaMemcpyAsync", cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault,
                                               static_cast<cudaStream_t>(stream_)));
}

void GpuStream::Fill(std::byte* at, int value, uint64_t bytes) {
  CheckCuda("cudaMemsetAsync",
            cudaMemsetAsync(at, value, bytes, static_cast<cudaStream_t>(stream_)));
}

void GpuStream::Begin() {
  CheckCuda("cudaEventRecord",
            cudaEventRecord(static_cast<cudaEvent_t>(begin_), static_cast<cudaStream_t>(stream_)));
}

void GpuStream::End() {
  CheckCuda("cudaEventRecord",
            cudaEventRecord(static_cast<cudaEvent_t>(end_), static_cast<cudaStream_t>(stream_)));
}

bool GpuStream::Ended() const {
  const cudaError_t error = cudaEventQuery(static_cast<cudaEvent_t>(end_));
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();  // Or a launch's check would report it.
    return false;
  }
  CheckCuda("cudaEventQuery", error);
  return true;
}

double GpuStream::Seconds() {
  Wait();
  float milliseconds = 0;
  CheckCuda("cudaEventElapsedTime",
            cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(begin_),
                                 static_cast<cudaEvent_t>(end_)));
  return milliseconds / 1e3;
}

void GpuStream::Wait() {
  CheckCuda("cudaStreamSynchronize", cudaStreamSynchronize(static_cast<cudaStream_t>(stream_)));
}

}  // namespace kvtier::bench
