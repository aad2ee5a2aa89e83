// CallCopies moves segments by a call of cudaMemcpyAsync each, in one stream, and waits once:
// what an engine does that copies each piece by itself, and of large pieces what the link
// can do.
#ifndef KVTIER_BENCH_CALL_COPIES_H_
#define KVTIER_BENCH_CALL_COPIES_H_

#include <span>
#include <vector>

#include "bench/gpu_kernels.h"
#include "bench/gpu_rig.h"
#include "bench/gpu_stream.h"
#include "tier_gpu/device/copy.h"

namespace kvtier::bench {

// Built only where CUDA is. REQUIRES: the rig is not emulated; as RowsOf().
class CallCopies {
 public:
  // In `stream`, which is not owned.
  CallCopies(GpuRig* rig, GpuStream* stream, CopyDirection direction,
             std::span<const CopySegment> segments);
  // Enqueues all of it.
  void Start();
  // Seconds from the first call until the end of the last is seen.
  double Run();
  // The same as the GPU has it.
  double RunOnGpu();

 private:
  GpuStream* const stream_;
  const std::vector<RowCopy> copies_;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_CALL_COPIES_H_
