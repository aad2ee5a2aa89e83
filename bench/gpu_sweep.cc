// Every path over sizes and numbers of segments, beside what is written first.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/gpu_sections.h"
#include "bench/plain_ways.h"
#include "bench/rig_cell.h"

namespace kvtier::bench {
namespace {

constexpr uint64_t kLeastSize = 1 << 10;
constexpr uint64_t kMostSize = 4 << 20;
constexpr std::array<size_t, 5> kCounts = {16, 64, 256, 1024, 4096};

constexpr std::array<const char*, kCopyPaths> kPathNames = {"batch", "staged", "direct"};

// What has figures: enough of the sizes that were aimed at to fill the link.
constexpr std::array<TorchCell, 2> kFigureCells = {{{8 << 10, 4096}, {512 << 10, 256}}};

// A way of the table, and its bytes a second; 0: it was not measured.
struct Column {
  const char* name;
  TorchSpeeds speeds;
};

class SweepCell {
 public:
  SweepCell(GpuRig* rig, uint64_t size, size_t count)
      : rig_(rig), size_(size), bytes_(static_cast<double>(size * count)), key_{size, count} {
    for (size_t path = 0; path < kCopyPaths; ++path) {
      const RigCell cell(rig, size, count, static_cast<CopyPath>(path));
      by_path_[path] = Measure(cell, rig->ByBatches(cell.in_batches, cell.out_batches));
    }
    const RigCell cell(rig, size, count, CopyPath::kBatch);
    each_ = Measure(cell, CallEach(rig, cell.in, cell.out));
    rows_ = Measure(cell, WarpARow(rig, cell.in, cell.out));
  }

  // The cell's row of one direction; its figures, too, if it has some.
  void Print(CopyDirection direction, const CalibrationTable& table, double ceiling,
             const NaiveSpeeds& naive, GpuFigures* figures) const {
    const CopyPath chosen = Chosen(direction, table);
    const auto torch = naive.torch.find(key_);
    std::vector<Column> columns = {{"a call each", each_}};
    for (size_t path = 0; path < kCopyPaths; ++path) {
      columns.push_back({kPathNames[path], by_path_[path]});
    }
    columns.push_back({"chosen", by_path_[static_cast<size_t>(chosen)]});
    columns.push_back({"a warp a row", rows_});
    columns.push_back({"torch", torch == naive.torch.end() ? TorchSpeeds{} : torch->second});

    const char* const where = direction == kIn ? "in" : "out";
    std::printf("  %-4s %8lu %6lu", where, size_, key_.rows);
    for (const Column& column : columns) {
      const double speed = direction == kIn ? column.speeds.in : column.speeds.out;
      if (speed == 0) {
        std::printf(" %19s", "-");
        continue;
      }
      std::printf(" %10.2f (%5.1f %%)", speed / 1e9, 100 * speed / ceiling);
      if (std::ranges::count(kFigureCells, key_) == 0) continue;
      std::string name = column.name;
      std::ranges::replace(name, ' ', '_');
      figures->push_back({absl::StrCat("gpu.", where, ".", name, ".", size_), speed / 1e9, "GB/s",
                          speed / ceiling, "pinned copy"});
    }
    std::printf("  %s\n", kPathNames[static_cast<size_t>(chosen)]);
  }

 private:
  TorchSpeeds Measure(const RigCell& cell, const std::optional<CopyWay>& way) const {
    if (!way) return {};
    const BothWays seconds = MeasureWay(rig_, cell.in, cell.out, *way);
    return {bytes_ / seconds.in, bytes_ / seconds.out};
  }
  // What a worker's lane would take.
  CopyPath Chosen(CopyDirection direction, const CalibrationTable& table) const {
    const CopyJob job = {.direction = direction, .segment_bytes = size_, .segments = key_.rows};
    return table.Choose(job, LanePaths::kAll);
  }

  GpuRig* const rig_;
  const uint64_t size_;
  const double bytes_;
  const TorchCell key_;
  std::array<TorchSpeeds, kCopyPaths> by_path_;
  TorchSpeeds each_;
  TorchSpeeds rows_;
};

}  // namespace

NaiveSpeeds MeasureNaive(GpuRig* rig) {
  NaiveSpeeds naive;
  if (rig->emulated()) {
    std::printf("\nNOT MEASURED: a call each, a warp a row, and torch: they need a GPU\n");
    return naive;
  }
  std::vector<TorchCell> cells;
  for (uint64_t size = kLeastSize; size <= kMostSize; size *= 2) {
    for (const uint64_t count : kCounts) {
      if (size * count <= std::min<uint64_t>(rig->bytes(), 256 << 20))
        cells.push_back({size, count});
    }
  }
  auto torch = MeasureTorch(rig->ordinal(), cells);
  if (torch.ok()) {
    naive.torch = *std::move(torch);
  } else {
    std::printf("\nNOT MEASURED: torch: %s\n", std::string(torch.status().message()).c_str());
  }
  return naive;
}

void MeasureSweep(GpuRig* rig, const CalibrationTable& table, const LinkCeilings& ceilings,
                  const NaiveSpeeds& naive, GpuFigures* figures) {
  std::printf("\npaths by size and number of segments, GB/s and share of the ceiling\n");
  std::printf("  %-4s %8s %6s %19s", "", "bytes", "count", "a call each");
  for (const char* const path : kPathNames) std::printf(" %19s", path);
  std::printf(" %19s %19s %19s  chosen\n", "chosen", "a warp a row", "torch");
  for (uint64_t size = kLeastSize; size <= kMostSize; size *= 2) {
    for (const size_t count : kCounts) {
      if (size * count > rig->bytes()) continue;
      const SweepCell cell(rig, size, count);
      cell.Print(kIn, table, ceilings.in, naive, figures);
      cell.Print(kOut, table, ceilings.out, naive, figures);
    }
  }
}

}  // namespace kvtier::bench
