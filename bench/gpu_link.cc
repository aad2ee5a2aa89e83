// Ceilings of the link, and costs of a submission.
#include <array>
#include <cstdio>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/gpu_sections.h"
#include "bench/rig_cell.h"
#include "core/check.h"

namespace kvtier::bench {
namespace {

constexpr CopyDirection kIn = CopyDirection::kHostToDevice;
constexpr CopyDirection kOut = CopyDirection::kDeviceToHost;

}  // namespace

LinkCeilings MeasureCeilings(GpuRig* rig, GpuFigures* figures) {
  const RigCell cell(rig, rig->bytes() / 4, 4, CopyPath::kBatch, 1);
  rig->Prove(cell.in_batches, cell.out_batches);
  const auto bytes = static_cast<double>(rig->bytes());
  LinkCeilings ceilings;
  ceilings.in = bytes / MedianOfRuns([&] { return rig->Run(kIn, cell.in_batches); });
  ceilings.out = bytes / MedianOfRuns([&] { return rig->Run(kOut, cell.out_batches); });
  ceilings.both =
      2 * bytes / MedianOfRuns([&] { return rig->RunBoth(cell.in_batches, cell.out_batches); });
  std::printf("\nlink ceilings, %.0f MiB at a time\n", bytes / 4 / (1 << 20));
  std::printf("  to the device %.1f GB/s, from it %.1f GB/s, both at once %.1f GB/s in sum\n",
              ceilings.in / 1e9, ceilings.out / 1e9, ceilings.both / 1e9);
  figures->push_back({"gpu.both_ways", ceilings.both / 1e9, "GB/s",
                      ceilings.both / (ceilings.in + ceilings.out), "the sum of each alone"});
  return ceilings;
}

void MeasureSubmitCosts(GpuRig* rig) {
  std::printf("\nwhat a submission costs its caller, segments of 4 KiB\n");
  for (const size_t count : {1, 16, 256, 1024}) {
    const RigCell cell(rig, 4096, count, CopyPath::kBatch, count);
    const double seconds = MedianOfRuns([&] {
      const absl::Time start = absl::Now();
      KVT_CHECK(rig->device()
                    .Submit({.direction = kIn, .region = rig->region(), .segments = cell.in})
                    .ok());
      const double took = absl::ToDoubleSeconds(absl::Now() - start);
      KVT_CHECK(rig->device().Drain(absl::Seconds(10)).ok());
      std::array<Completion, 4> ended;
      while (rig->device().Poll(ended) > 0) {
      }
      return took;
    });
    std::printf("  %4zu segments: %8.2f us, %6.3f us each\n", count, seconds * 1e6,
                seconds * 1e6 / static_cast<double>(count));
  }
}

}  // namespace kvtier::bench
