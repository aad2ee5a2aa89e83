// RowCopies moves segments the way that is written first: one launch of a kernel in which
// a warp copies a row, straight to or from host memory over the link.
#ifndef KVTIER_BENCH_ROW_COPIES_H_
#define KVTIER_BENCH_ROW_COPIES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "bench/gpu_kernels.h"
#include "bench/gpu_rig.h"
#include "bench/gpu_stream.h"
#include "tier_gpu/device/copy.h"

namespace kvtier::bench {

// All addresses as the GPU has them. REQUIRES: the host memory is the rig's source() on the
// way in, and back() on the way out.
std::vector<RowCopy> RowsOf(GpuRig* rig, CopyDirection direction,
                            std::span<const CopySegment> segments);

// Built only where CUDA is. REQUIRES: the rig is not emulated; addresses and sizes are
// multiples of 16; as RowsOf().
class RowCopies {
 public:
  // In `stream`, which is not owned.
  RowCopies(GpuRig* rig, GpuStream* stream, CopyDirection direction,
            std::span<const CopySegment> segments);
  // Seconds from the launch until it is seen to have ended.
  double Run();

 private:
  GpuStream* const stream_;
  const uint32_t count_;
  GpuMemory rows_;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_ROW_COPIES_H_
