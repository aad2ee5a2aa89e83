// The sections of gpu_bench, each a table for people and figures for programs. Sizes are
// scaled down where the device is emulated: it moves bytes with one core.
#ifndef KVTIER_BENCH_GPU_SECTIONS_H_
#define KVTIER_BENCH_GPU_SECTIONS_H_

#include <string>
#include <vector>

#include "bench/gpu_rig.h"

namespace kvtier::bench {

// One of the last lines, which are printed when all tables are.
struct GpuFigure {
  std::string name;
  double value = 0;
  const char* unit = "";
  double ratio = 0;
  const char* reference = "";
};
using GpuFigures = std::vector<GpuFigure>;

// Bytes a second of one long copy: what everything else is held against.
struct LinkCeilings {
  double in = 0;
  double out = 0;
  double both = 0;  // The sum, with both directions at once.
};

LinkCeilings MeasureCeilings(GpuRig* rig, GpuFigures* figures);
// What Submit() costs its caller, by segments of a batch.
void MeasureSubmitCosts(GpuRig* rig);
// Every path over sizes and numbers of segments, beside one submission a segment.
void MeasureSweep(GpuRig* rig, const LinkCeilings& ceilings, GpuFigures* figures);
// Llama 3 8B: blocks of 2 MiB in our layout and in an engine's, whole and layer-wise.
void MeasureBlocks(GpuRig* rig, const LinkCeilings& ceilings, GpuFigures* figures);
// A second process on the same memory: signals there and back, and its death. It is this
// program again, with --child and the numbers of the descriptors it inherits.
void MeasureProcesses(GpuRig* rig, const std::string& device, GpuFigures* figures);
// What the second process does; its exit status.
int RunChild(const std::string& device, const std::string& descriptors);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_GPU_SECTIONS_H_
