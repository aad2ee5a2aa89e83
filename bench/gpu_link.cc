// Ceilings of the link, costs of a submission, and the sweep of paths over sizes.
#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/figure.h"
#include "bench/gpu_sections.h"
#include "core/check.h"

namespace kvtier::bench {
namespace {

constexpr int kRepetitions = 25;
constexpr double kCellSeconds = 0.3;  // A slow cell is repeated less often.
constexpr CopyDirection kIn = CopyDirection::kHostToDevice;
constexpr CopyDirection kOut = CopyDirection::kDeviceToHost;

template <typename Run>
double MedianSeconds(Run run) {
  std::vector<double> seconds;
  double spent = run();  // Warms up.
  for (int i = 0; i < kRepetitions && (i < 3 || spent < kCellSeconds); ++i) {
    seconds.push_back(run());
    spent += seconds.back();
  }
  return Median(seconds);
}

// `count` segments of one size: side by side in host memory, scattered on the device.
struct Cell {
  Cell(GpuRig* rig, uint64_t size, size_t count, CopyPath path, size_t per_batch) {
    std::vector<size_t> places(count);
    std::iota(places.begin(), places.end(), 0);
    std::ranges::shuffle(places, std::mt19937_64(count));
    for (size_t i = 0; i < count; ++i) {
      in.push_back({2 * size * places[i], rig->source() + i * size, size});
      out.push_back({2 * size * places[i], rig->back() + i * size, size});
    }
    for (size_t first = 0; first < count; first += per_batch) {
      const size_t segments = std::min(per_batch, count - first);
      in_batches.push_back({path, std::span(in).subspan(first, segments)});
      out_batches.push_back({path, std::span(out).subspan(first, segments)});
    }
  }
  std::vector<CopySegment> in;
  std::vector<CopySegment> out;
  std::vector<RigBatch> in_batches;
  std::vector<RigBatch> out_batches;
};

struct Way {
  const char* name;
  CopyPath path;
  bool one_a_batch;
};
constexpr std::array<Way, 4> kWays = {{{"a call each", CopyPath::kBatch, true},
                                       {"batch", CopyPath::kBatch, false},
                                       {"staged", CopyPath::kStaged, false},
                                       {"direct", CopyPath::kDirect, false}}};

}  // namespace

LinkCeilings MeasureCeilings(GpuRig* rig, GpuFigures* figures) {
  const Cell cell(rig, rig->bytes() / 4, 4, CopyPath::kBatch, 1);
  rig->Prove(cell.in_batches, cell.out_batches);
  const auto bytes = static_cast<double>(rig->bytes());
  LinkCeilings ceilings;
  ceilings.in = bytes / MedianSeconds([&] { return rig->Run(kIn, cell.in_batches); });
  ceilings.out = bytes / MedianSeconds([&] { return rig->Run(kOut, cell.out_batches); });
  ceilings.both =
      2 * bytes / MedianSeconds([&] { return rig->RunBoth(cell.in_batches, cell.out_batches); });
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
    const Cell cell(rig, 4096, count, CopyPath::kBatch, count);
    const double seconds = MedianSeconds([&] {
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

void MeasureSweep(GpuRig* rig, const LinkCeilings& ceilings, GpuFigures* figures) {
  std::printf("\npaths by size and number of segments, GB/s and share of the ceiling\n");
  for (const CopyDirection direction : {kIn, kOut}) {
    const double ceiling = direction == kIn ? ceilings.in : ceilings.out;
    const char* const where = direction == kIn ? "in" : "out";
    std::printf("  %-4s %8s %6s", where, "bytes", "count");
    for (const Way& way : kWays) std::printf(" %19s", way.name);
    std::printf("\n");
    for (uint64_t size = 1 << 10; size <= 4 << 20; size *= 2) {
      for (const size_t count : {16, 64, 256, 1024, 4096}) {
        if (size * count > rig->bytes()) continue;
        std::printf("  %-4s %8lu %6zu", where, size, count);
        for (const Way& way : kWays) {
          const Cell cell(rig, size, count, way.path, way.one_a_batch ? 1 : kMaxCopySegments);
          rig->Prove(cell.in_batches, cell.out_batches);
          const double speed =
              static_cast<double>(size * count) / MedianSeconds([&] {
                return rig->Run(direction, direction == kIn ? cell.in_batches : cell.out_batches);
              });
          std::printf(" %10.2f (%5.1f %%)", speed / 1e9, 100 * speed / ceiling);
          const bool aimed = count == 256 && (size == 8 << 10 || size == 512 << 10);
          if (!aimed || way.one_a_batch) continue;
          figures->push_back({absl::StrCat("gpu.", where, ".", way.name, ".", size), speed / 1e9,
                              "GB/s", speed / ceiling, "pinned copy"});
        }
        std::printf("\n");
      }
    }
  }
}

}  // namespace kvtier::bench
