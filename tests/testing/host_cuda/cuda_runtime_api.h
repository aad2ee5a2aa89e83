// The part of CUDA's runtime that tests of kernels call, on the host: device memory
// is memory, and every launch has ended when it returns.
//
// This folder stands in for CUDA's headers, so that the .cu files of kernels/ are
// compiled by the host's compiler and run without a GPU (thread_block.h says how).
// What is not here does not compile.
#ifndef KVTIER_TESTS_TESTING_HOST_CUDA_CUDA_RUNTIME_API_H_
#define KVTIER_TESTS_TESTING_HOST_CUDA_CUDA_RUNTIME_API_H_

#include <cstddef>

// CUDA's numbers.
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorNotSupported = 801,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
using cudaStream_t = struct CUstream_st*;

// One device, or under ThreadSanitizer none: cudaGetErrorString says why.
cudaError_t cudaGetDeviceCount(int* count);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaDeviceSynchronize();
// Poisoned, so that what a kernel should have written shows; cudaFree() ends the program if
// something was written beside it.
cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
// Refused unless the device's side lies in one allocation.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);

#endif  // KVTIER_TESTS_TESTING_HOST_CUDA_CUDA_RUNTIME_API_H_
