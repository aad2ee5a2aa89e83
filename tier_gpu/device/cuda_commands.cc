#include "tier_gpu/device/cuda_commands.h"

namespace kvtier {

CudaCommand CudaStreams::Record(cudaEvent_t event, CudaCommand::Where where) const {
  return {where, [event, stream = of(where)] {
            return CudaStatus("cudaEventRecord", cudaEventRecord(event, stream));
          }};
}

CudaCommand CudaStreams::WaitFor(cudaEvent_t event, CudaCommand::Where where) const {
  return {where, [event, stream = of(where)] {
            return CudaStatus("cudaStreamWaitEvent", cudaStreamWaitEvent(stream, event, 0));
          }};
}

absl::Status CreateEvent(cudaEvent_t* event) {
  return CudaStatus("cudaEventCreateWithFlags",
                    cudaEventCreateWithFlags(event, cudaEventDisableTiming));
}

}  // namespace kvtier
