// What the parts of the fake GPU know of each other.
#ifndef KVTIER_TESTS_TESTING_FAKE_CUDA_GPU_H_
#define KVTIER_TESTS_TESTING_FAKE_CUDA_GPU_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <functional>

namespace kvtier::testing::fake_cuda {

// What every call answers since the device is lost; cudaSuccess: it is not.
cudaError_t Lost();
// Gives the answer, and keeps an error as the thread's last one, "not ready" too.
cudaError_t Answer(cudaError_t error);

// Puts work that moves bytes, and that faults reach, into the stream; as a launch answers.
int EnqueueWork(void* stream, std::function<void()> work);

CUresult WriteWord(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned int flags);
CUresult WaitForWord(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned int flags);

}  // namespace kvtier::testing::fake_cuda

#endif  // KVTIER_TESTS_TESTING_FAKE_CUDA_GPU_H_
