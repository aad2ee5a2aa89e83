// Functions that the parts of the fake GPU call of each other.
#ifndef KVTIER_TESTS_TESTING_FAKE_CUDA_GPU_H_
#define KVTIER_TESTS_TESTING_FAKE_CUDA_GPU_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <optional>
#include <vector>

namespace kvtier::testing::fake_cuda {

int DriverVersion();
// Returns the error of every call since the device was lost; cudaSuccess: it is not lost.
cudaError_t Lost();
// Gives the answer, and keeps an error as the thread's last one, "not ready" too.
cudaError_t Answer(cudaError_t error);

// Whether the driver was asked for the GPU's attribute.
bool WasAsked(CUdevice_attribute attribute);
// Takes this attribute from the GPU; nullopt: it has all.
void SetLacking(std::optional<CUdevice_attribute> attribute);

// Returns the error of a call that a capture forbids to this thread; cudaSuccess: none does.
cudaError_t RefusedByCapture();
bool Captures(void* stream);

// Entries of a stream that move bytes, which faults reach; on the GPU's own thread.
cudaError_t EnqueueMoves(void* stream, std::vector<std::function<void()>> moves);
// The same for a launch, and as one answers.
int EnqueueWork(void* stream, std::function<void()> work);

// Whether what `call` writes there is lost, and nothing says so: the environment's
// KVTIER_FAKE_GPU_LOSES names the call, and it is the GPU's own memory. For who looks.
bool LosesWrite(const char* call, const void* device);

CUresult WriteWord(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned int flags);
CUresult WaitForWord(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned int flags);

}  // namespace kvtier::testing::fake_cuda

#endif  // KVTIER_TESTS_TESTING_FAKE_CUDA_GPU_H_
