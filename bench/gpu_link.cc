// Ceilings of the link, and costs of a submission.
#include <array>
#include <cstdio>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/gpu_sections.h"
#include "bench/rig_cell.h"
#include "core/check.h"
#ifdef KVTIER_HAVE_CUDA
#include "bench/call_copies.h"
#include "bench/gpu_stream.h"
#endif

namespace kvtier::bench {
namespace {

// By our batches.
LinkCeilings OurSpeeds(GpuRig* rig, const RigCell& cell) {
  const BothWays seconds =
      MeasureWay(rig, cell.in, cell.out, rig->ByBatches(cell.in_batches, cell.out_batches));
  const auto bytes = static_cast<double>(rig->bytes());
  return {.in = bytes / seconds.in,
          .out = bytes / seconds.out,
          .both = 2 * bytes /
                  MedianOfRuns([&] { return rig->RunBoth(cell.in_batches, cell.out_batches); })};
}

#ifdef KVTIER_HAVE_CUDA

// By CUDA's own copies: each way in the GPU's time, and both from two streams in the host's.
LinkCeilings PlainSpeeds(GpuRig* rig, const RigCell& cell) {
  GpuStream other;
  CallCopies in(rig, &rig->stream(), kIn, cell.in);
  CallCopies out(rig, &other, kOut, cell.out);
  const BothWays seconds = MeasureWay(
      rig, cell.in, cell.out, {[&] { return in.RunOnGpu(); }, [&] { return out.RunOnGpu(); }});
  const double both = MedianOfRuns([&] {
    const absl::Time start = absl::Now();
    in.Start();
    out.Start();
    rig->stream().Wait();
    other.Wait();
    return absl::ToDoubleSeconds(absl::Now() - start);
  });
  const auto bytes = static_cast<double>(rig->bytes());
  return {.in = bytes / seconds.in, .out = bytes / seconds.out, .both = 2 * bytes / both};
}

#endif

void PrintSpeeds(const char* whose, const LinkCeilings& speeds) {
  std::printf("  %-12s to the device %.1f GB/s, from it %.1f GB/s, both at once %.1f GB/s in sum\n",
              whose, speeds.in / 1e9, speeds.out / 1e9, speeds.both / 1e9);
}

}  // namespace

LinkCeilings MeasureCeilings(GpuRig* rig, GpuFigures* figures) {
  const RigCell cell(rig, rig->bytes() / 4, 4, CopyPath::kBatch);
  const LinkCeilings ours = OurSpeeds(rig, cell);
  LinkCeilings ceilings = ours;
#ifdef KVTIER_HAVE_CUDA
  if (!rig->emulated()) ceilings = PlainSpeeds(rig, cell);
#endif
  std::printf("\nlink ceilings, %lu MiB at a time%s\n", rig->bytes() / 4 >> 20,
              rig->emulated() ? " (our batches': nothing else moves bytes here)" : "");
  if (!rig->emulated()) PrintSpeeds("pinned copy", ceilings);
  PrintSpeeds("our batches", ours);
  figures->push_back({"gpu.both_ways", ceilings.both / 1e9, "GB/s",
                      ceilings.both / (ceilings.in + ceilings.out), "the sum of each alone"});
  const auto add = [&](const char* name, double speed, double ceiling) {
    figures->push_back({name, speed / 1e9, "GB/s", speed / ceiling, "pinned copy"});
  };
  add("gpu.link.in", ours.in, ceilings.in);
  add("gpu.link.out", ours.out, ceilings.out);
  add("gpu.link.both", ours.both, ceilings.both);
  return ceilings;
}

void MeasureSubmitCosts(GpuRig* rig) {
  std::printf("\nwhat a submission costs its caller, segments of 4 KiB\n");
  for (const size_t count : {1, 16, 256, 1024}) {
    const RigCell cell(rig, 4096, count, CopyPath::kBatch);
    rig->Prove(cell.in, cell.out, rig->ByBatches(cell.in_batches, cell.out_batches));
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
