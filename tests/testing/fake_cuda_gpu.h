// The parts of the fake GPU call each other through these functions.
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
// Returns `error`. If it is one ("not ready" is), makes it the thread's last error.
cudaError_t Answer(cudaError_t error);

// Returns whether the driver was asked for the GPU's attribute.
bool WasAsked(CUdevice_attribute attribute);
// Makes the GPU lack this attribute; nullopt: it has all.
void SetLacking(std::optional<CUdevice_attribute> attribute);

// Returns the error of a call that a capture forbids to this thread; cudaSuccess: none does.
cudaError_t RefusedByCapture();
bool Captures(void* stream);

// Adds entries that move bytes to a stream. They run on the GPU's own thread; FailNextMove() and
// RefuseMove() make them fail.
cudaError_t EnqueueMoves(void* stream, std::vector<std::function<void()>> moves);
// Adds a launch to a stream and returns what a launch returns.
int EnqueueWork(void* stream, std::function<void()> work);

// Returns whether `call`'s write to this address is dropped without an error: KVTIER_FAKE_GPU_LOSES
// in the environment names the call, and the address is in the GPU's own memory. Shows whether the
// tests find such a loss.
bool LosesWrite(const char* call, const void* device);

CUresult WriteWord(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned int flags);
CUresult WaitForWord(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned int flags);

}  // namespace kvtier::testing::fake_cuda

#endif  // KVTIER_TESTS_TESTING_FAKE_CUDA_GPU_H_
