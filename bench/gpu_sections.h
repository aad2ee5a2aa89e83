// The sections of gpu_bench, each a table for people and figures for programs. Sizes are
// scaled down where the device is emulated: it moves bytes with one core.
#ifndef KVTIER_BENCH_GPU_SECTIONS_H_
#define KVTIER_BENCH_GPU_SECTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "bench/block_races.h"
#include "bench/gpu_rig.h"
#include "bench/torch_copies.h"
#include "tier_gpu/plan/calibration.h"

namespace kvtier::bench {

// One of the lines for programs, which are printed when the section has ended.
struct GpuFigure {
  std::string name;
  double value = 0;
  const char* unit = "";
  double ratio = 0;
  const char* reference = "";
};
using GpuFigures = std::vector<GpuFigure>;

// Bytes a second of CUDA's own copies of long pinned pieces, or of ours where there is no
// GPU: what everything else is held against.
struct LinkCeilings {
  double in = 0;
  double out = 0;
  double both = 0;  // The sum, with both directions at once.
};

LinkCeilings MeasureCeilings(GpuRig* rig, GpuFigures* figures);
// What Submit() costs its caller, by segments of a batch.
void MeasureSubmitCosts(GpuRig* rig);
// What others do, as far as it is measured apart from our paths.
struct NaiveSpeeds {
  std::map<TorchCell, TorchSpeeds> torch;  // Empty: there is none, which was said.
};
NaiveSpeeds MeasureNaive(GpuRig* rig);
// Every path over sizes and numbers of segments, and which of them the table chooses,
// beside a call a segment, a kernel of one warp a row and torch.
void MeasureSweep(GpuRig* rig, const CalibrationTable& table, const LinkCeilings& ceilings,
                  const NaiveSpeeds& naive, GpuFigures* figures);
// The sweep that worker lanes make of a device, as a table, which is what copies are then
// planned by. Where it cannot be measured, that is said, and the table predicts.
CalibrationTable MeasureCalibration(GpuRig* rig, GpuFigures* figures);
// Llama 3 8B: blocks of 2 MiB in our layout and in an engine's, whole and layer-wise, and
// the engine's layer by layer as others do it.
void MeasureBlocks(GpuRig* rig, const CalibrationTable& table, const LinkCeilings& ceilings,
                   const NaiveSpeeds& naive, GpuFigures* figures);
// What a GEMM and a loop over the GPU's memory lose while each path copies as fast as it
// can beside them, and how fast that is.
void MeasureInterference(GpuRig* rig, const LinkCeilings& ceilings, GpuFigures* figures);
// Every codec, in the form that runs where the rig's device is.
void MeasureCodecs(GpuRig* rig, GpuFigures* figures);
// Copies against compute for `time` with `edges`, all of them in earnest, and a tenth of it
// without each. Returns how much went wrong with them: 0, or the program has failed.
uint64_t MeasureRaces(GpuRig* rig, RaceEdges edges, absl::Duration time, GpuFigures* figures);
// A second process on the same memory: signals there and back, and its death. It is this
// program again, with --child and the numbers of the descriptors it inherits.
void MeasureProcesses(GpuRig* rig, const std::string& device, GpuFigures* figures);
// What the second process does; its exit status.
int RunChild(const std::string& device, const std::string& descriptors);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_GPU_SECTIONS_H_
