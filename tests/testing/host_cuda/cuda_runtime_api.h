// The part of CUDA's runtime that tests of kernels call, on the host: device memory
// is memory, and every launch has ended when it returns.
//
// This folder stands in for CUDA's headers, so that the host's compiler compiles the .cu files of
// kernels/ and they run without a GPU (thread_block.h says how). A kernel that uses more of CUDA
// does not compile.
#ifndef KVTIER_TESTS_TESTING_HOST_CUDA_CUDA_RUNTIME_API_H_
#define KVTIER_TESTS_TESTING_HOST_CUDA_CUDA_RUNTIME_API_H_

#include <cstddef>

// The error codes have CUDA's numbers.
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorNotSupported = 801,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
using cudaStream_t = struct CUstream_st*;

// Sets `*count` to one device, or under ThreadSanitizer to none: cudaGetErrorString says why.
cudaError_t cudaGetDeviceCount(int* count);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaDeviceSynchronize();
// Allocates poisoned memory, so that what a kernel did not write shows; cudaFree() ends the program
// if a byte beside it was written.
cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
// Copies; refuses to unless the device's side lies in one allocation.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);

#endif  // KVTIER_TESTS_TESTING_HOST_CUDA_CUDA_RUNTIME_API_H_
