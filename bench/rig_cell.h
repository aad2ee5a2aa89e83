// A cell of a table: one number of segments of one size, and its median time.
#ifndef KVTIER_BENCH_RIG_CELL_H_
#define KVTIER_BENCH_RIG_CELL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "bench/figure.h"
#include "bench/gpu_rig.h"
#include "tier_gpu/plan/calibration.h"

namespace kvtier::bench {

// Of 25 runs, fewer of slow ones, behind one that warms up. `run` returns seconds.
template <typename Run>
double MedianOfRuns(Run run) {
  constexpr int kRepetitions = 25;
  constexpr double kCellSeconds = 0.3;
  std::vector<double> seconds;
  double spent = run();
  for (int i = 0; i < kRepetitions && (i < 3 || spent < kCellSeconds); ++i) {
    seconds.push_back(run());
    spent += seconds.back();
  }
  return Median(seconds);
}

struct BothWays {
  double in = 0;  // Seconds.
  double out = 0;
};

// Of a way to move these segments, which is proved first.
inline BothWays MeasureWay(GpuRig* rig, std::span<const CopySegment> in,
                           std::span<const CopySegment> out, const CopyWay& way) {
  rig->Prove(in, out, way);
  return {MedianOfRuns(way.in), MedianOfRuns(way.out)};
}

// `count` segments of one size, in batches as the planner cuts them: side by side in host
// memory, scattered on the device. They must stay where they are: batches point to them.
struct RigCell {
  RigCell(GpuRig* rig, uint64_t size, size_t count, CopyPath path) {
    const size_t per_batch = BatchSegments(size);
    std::vector<size_t> places(count);
    std::iota(places.begin(), places.end(), 0);
    std::ranges::shuffle(places, std::mt19937_64(count));
    in.reserve(count);
    out.reserve(count);
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
  RigCell(const RigCell&) = delete;
  RigCell& operator=(const RigCell&) = delete;

  const std::vector<RigBatch>& batches(CopyDirection direction) const {
    return direction == CopyDirection::kHostToDevice ? in_batches : out_batches;
  }
  const std::vector<CopySegment>& segments(CopyDirection direction) const {
    return direction == CopyDirection::kHostToDevice ? in : out;
  }

  std::vector<CopySegment> in;
  std::vector<CopySegment> out;
  std::vector<RigBatch> in_batches;
  std::vector<RigBatch> out_batches;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_RIG_CELL_H_
