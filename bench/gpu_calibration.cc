// What the planner goes by on this device, measured as a worker's lanes measure it.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "absl/time/clock.h"
#include "bench/gpu_sections.h"
#include "tier_gpu/calibration_sweep.h"

namespace kvtier::bench {
namespace {

constexpr std::array<const char*, kCopyPaths> kPathNames = {"batch", "staged", "direct"};
constexpr std::array<size_t, 3> kShownCounts = {16, 256, 4096};

const char* NameOf(CopyPath path) { return kPathNames[static_cast<size_t>(path)]; }

CopyPath PathOf(const CalibrationTable& table, const CopyJob& job) {
  return table.Choose(job, LanePaths::kAll);
}

// A job's row: the path that is chosen, and what each takes; a star, as shorter jobs do.
void PrintJob(const CalibrationTable& table, const CalibrationCell& cell) {
  const CopyJob job = JobOf(cell);
  const auto bytes = static_cast<double>(job.segment_bytes * job.segments);
  std::printf("  %-4s %8lu %6zu  %-7s",
              job.direction == CopyDirection::kHostToDevice ? "in" : "out", job.segment_bytes,
              job.segments, NameOf(PathOf(table, job)));
  for (size_t path = 0; path < kCopyPaths; ++path) {
    CalibrationCell of_path = cell;
    of_path.path = static_cast<CopyPath>(path);
    const bool measured = table.measured(of_path) > absl::ZeroDuration();
    const double seconds = absl::ToDoubleSeconds(table.Time(job, of_path.path));
    std::printf(" %11.1f us%c %6.1f GB/s", seconds * 1e6, measured ? ' ' : '*',
                bytes / seconds / 1e9);
  }
  std::printf("\n");
}

template <typename Visit>
void ForEachJob(Visit visit) {
  for (const auto direction : {CopyDirection::kHostToDevice, CopyDirection::kDeviceToHost}) {
    for (size_t size = 0; size < kCalibrationSizes.size(); ++size) {
      for (size_t count = 0; count < kCalibrationCounts.size(); ++count) {
        visit(CalibrationCell{.direction = direction, .size = size, .count = count});
      }
    }
  }
}

}  // namespace

CalibrationTable MeasureCalibration(GpuRig* rig, GpuFigures* figures) {
  const CalibrationTable assumed(LinkModel::Pcie5());
  CalibrationTable table = assumed;
  // What lanes measure where the rig has its 2 GiB; less of it where it is small.
  const uint64_t longest = std::min(kMaxSweepJobBytes, rig->bytes() / 64);
  const absl::Time start = absl::Now();
  const auto cells = SweepCalibration(&rig->device(), {.max_job_bytes = longest}, &table);
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  if (!cells.ok()) {
    std::printf("\nNOT MEASURED: %s; blocks are planned by the link model\n",
                std::string(cells.status().message()).c_str());
    return assumed;
  }
  std::printf("\ncalibration: %zu cells in %.1f s, jobs of up to %lu KiB; * as shorter jobs\n",
              *cells, seconds, longest >> 10);
  std::printf("  %-4s %8s %6s  %-7s", "", "bytes", "count", "chosen");
  for (const char* const path : kPathNames) std::printf(" %26s", path);
  std::printf("\n");
  size_t jobs = 0;
  size_t others = 0;
  ForEachJob([&](const CalibrationCell& cell) {
    ++jobs;
    const CopyJob job = JobOf(cell);
    others += PathOf(table, job) != PathOf(assumed, job) ? 1 : 0;
    if (std::ranges::count(kShownCounts, job.segments) > 0) PrintJob(table, cell);
  });
  figures->push_back({"gpu.calibration", seconds, "s",
                      static_cast<double>(others) / static_cast<double>(jobs),
                      "of the choices are not the link model's"});
  return table;
}

}  // namespace kvtier::bench
