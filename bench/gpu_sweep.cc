// Every path over sizes and numbers of segments, beside what is written first.
#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/gpu_sections.h"
#include "bench/rig_cell.h"
#include "core/check.h"
#ifdef KVTIER_HAVE_CUDA
#include "bench/row_copies.h"
#endif

namespace kvtier::bench {
namespace {

constexpr CopyDirection kIn = CopyDirection::kHostToDevice;
constexpr CopyDirection kOut = CopyDirection::kDeviceToHost;

struct Way {
  const char* name;
  CopyPath path;
  bool one_a_batch;
};
constexpr std::array<Way, 4> kWays = {{{"a call each", CopyPath::kBatch, true},
                                       {"batch", CopyPath::kBatch, false},
                                       {"staged", CopyPath::kStaged, false},
                                       {"direct", CopyPath::kDirect, false}}};

// Seconds of the plain kernel, its bytes proved; 0 where there is no GPU to run it.
double RowSeconds(GpuRig* rig, const RigCell& cell, CopyDirection direction) {
#ifdef KVTIER_HAVE_CUDA
  if (!rig->emulated()) {
    RowCopies in(rig, kIn, cell.in);
    RowCopies out(rig, kOut, cell.out);
    const uint64_t bytes = cell.in.size() * cell.in[0].bytes;
    std::memset(rig->back(), 0xa5, bytes);
    in.Run();
    out.Run();
    KVT_CHECK(std::memcmp(rig->back(), rig->source(), bytes) == 0);
    return MedianOfRuns([&] { return (direction == kIn ? in : out).Run(); });
  }
#endif
  (void)cell;
  (void)direction;
  KVT_CHECK(rig->emulated());
  return 0;
}

// One row of the table, and its figures where the size is one that was aimed at.
class SweepRow {
 public:
  SweepRow(CopyDirection direction, uint64_t size, size_t count, double ceiling)
      : where_(direction == kIn ? "in" : "out"), size_(size), count_(count), ceiling_(ceiling) {
    std::printf("  %-4s %8lu %6zu", where_, size, count);
  }
  void Print(const char* way, double speed, GpuFigures* figures) const {
    if (speed == 0) {
      std::printf(" %19s", "-");
      return;
    }
    std::printf(" %10.2f (%5.1f %%)", speed / 1e9, 100 * speed / ceiling_);
    if (count_ != 256 || (size_ != 8 << 10 && size_ != 512 << 10)) return;
    std::string name = way;
    for (char& letter : name) letter = letter == ' ' ? '_' : letter;
    figures->push_back({absl::StrCat("gpu.", where_, ".", name, ".", size_), speed / 1e9, "GB/s",
                        speed / ceiling_, "pinned copy"});
  }

 private:
  const char* const where_;
  const uint64_t size_;
  const size_t count_;
  const double ceiling_;
};

}  // namespace

NaiveSpeeds MeasureNaive(GpuRig* rig) {
  NaiveSpeeds naive;
  if (rig->emulated()) {
    std::printf("\nNOT MEASURED: the kernel of one warp a row, and torch: they need a GPU\n");
    return naive;
  }
  std::vector<TorchCell> cells;
  for (uint64_t size = 1 << 10; size <= 4 << 20; size *= 2) {
    for (const uint64_t count : {256, 4096}) {
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

void MeasureSweep(GpuRig* rig, const LinkCeilings& ceilings, const NaiveSpeeds& naive,
                  GpuFigures* figures) {
  std::printf("\npaths by size and number of segments, GB/s and share of the ceiling\n");
  for (const CopyDirection direction : {kIn, kOut}) {
    const double ceiling = direction == kIn ? ceilings.in : ceilings.out;
    std::printf("  %-4s %8s %6s", direction == kIn ? "in" : "out", "bytes", "count");
    for (const Way& way : kWays) std::printf(" %19s", way.name);
    std::printf(" %19s %19s\n", "a warp a row", "torch");
    for (uint64_t size = 1 << 10; size <= 4 << 20; size *= 2) {
      for (const size_t count : {16, 64, 256, 1024, 4096}) {
        if (size * count > rig->bytes()) continue;
        const SweepRow row(direction, size, count, ceiling);
        const auto bytes = static_cast<double>(size * count);
        for (const Way& way : kWays) {
          const RigCell cell(rig, size, count, way.path, way.one_a_batch ? 1 : kMaxCopySegments);
          rig->Prove(cell.in_batches, cell.out_batches);
          const double seconds =
              MedianOfRuns([&] { return rig->Run(direction, cell.batches(direction)); });
          row.Print(way.name, bytes / seconds, figures);
        }
        const RigCell cell(rig, size, count, CopyPath::kBatch, kMaxCopySegments);
        const double rows = RowSeconds(rig, cell, direction);
        row.Print("a warp a row", rows > 0 ? bytes / rows : 0, figures);
        const auto torch = naive.torch.find({size, count});
        const TorchSpeeds speeds = torch == naive.torch.end() ? TorchSpeeds{} : torch->second;
        row.Print("torch", direction == kIn ? speeds.in : speeds.out, figures);
        std::printf("\n");
      }
    }
  }
}

}  // namespace kvtier::bench
