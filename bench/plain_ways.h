// What is written first to move scattered segments, as ways beside ours: a call of CUDA's
// own for each segment, and a kernel in which a warp copies a row.
#ifndef KVTIER_BENCH_PLAIN_WAYS_H_
#define KVTIER_BENCH_PLAIN_WAYS_H_

#include <optional>
#include <span>

#include "bench/gpu_rig.h"
#include "tier_gpu/device/copy.h"

namespace kvtier::bench {

// Both run in the rig's own stream. nullopt: the rig is emulated, and has no such thing.
// REQUIRES: as RowCopies.
std::optional<CopyWay> CallEach(GpuRig* rig, std::span<const CopySegment> in,
                                std::span<const CopySegment> out);
std::optional<CopyWay> WarpARow(GpuRig* rig, std::span<const CopySegment> in,
                                std::span<const CopySegment> out);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_PLAIN_WAYS_H_
