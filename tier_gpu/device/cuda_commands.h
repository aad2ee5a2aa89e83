// Holds the commands that the kernel paths of a lane are made of: events by which its two streams
// wait for each other, and launches.
#ifndef KVTIER_TIER_GPU_DEVICE_CUDA_COMMANDS_H_
#define KVTIER_TIER_GPU_DEVICE_CUDA_COMMANDS_H_

#include "absl/status/status.h"
#include "tier_gpu/device/cuda_driver.h"
#include "tier_gpu/device/cuda_lane.h"

namespace kvtier {

inline constexpr auto kInLane = CudaCommand::Where::kLane;
inline constexpr auto kAhead = CudaCommand::Where::kAhead;

// The lane's stream, and the stream that is fed ahead of it.
struct CudaStreams {
  cudaStream_t lane = nullptr;
  cudaStream_t ahead = nullptr;

  cudaStream_t of(CudaCommand::Where where) const {
    return where == CudaCommand::Where::kLane ? lane : ahead;
  }
  CudaCommand Record(cudaEvent_t event, CudaCommand::Where where) const;
  // Makes the stream wait for the event, or for nothing if the event was never recorded.
  CudaCommand WaitFor(cudaEvent_t event, CudaCommand::Where where) const;
};

// Creates an event without timing. Errors: CudaStatus()'s.
absl::Status CreateEvent(cudaEvent_t* event);

// Runs `launch`, a launch function of kernels/, and returns its error as a status that names
// `what`.
template <typename Launch>
absl::Status LaunchStatus(const char* what, Launch launch) {
  // A launch reports the thread's last error, so an earlier error of other code is cleared first.
  (void)cudaGetLastError();
  return CudaStatus(what, static_cast<cudaError_t>(launch()));
}

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_COMMANDS_H_
