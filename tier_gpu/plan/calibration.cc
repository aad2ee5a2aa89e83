#include "tier_gpu/plan/calibration.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {
namespace {

// A lane is steady behind so many batches of one shape.
constexpr size_t kSteadyBatches = 8;

bool InTable(const CalibrationCell& cell) {
  return static_cast<size_t>(cell.direction) < kCopyDirections &&
         static_cast<size_t>(cell.path) < kCopyPaths && cell.size < kCalibrationSizes.size() &&
         cell.count < kCalibrationCounts.size();
}

// Where a value lies between two points: at `low`, and `share` of the way to the next.
// Below the first point it is the first, past the last it is the last.
struct Place {
  size_t low = 0;
  double share = 0;
};

template <typename Points>
Place PlaceOf(const Points& points, uint64_t value) {
  if (value <= points.front()) return {};
  if (value >= points.back()) return {.low = points.size() - 1};
  const auto above = std::ranges::upper_bound(points, value);
  const auto low = static_cast<size_t>(above - points.begin()) - 1;
  return {.low = low,
          .share = static_cast<double>(value - points[low]) /
                   static_cast<double>(points[low + 1] - points[low])};
}

}  // namespace

CopyJob JobOf(const CalibrationCell& cell) {
  KVT_CHECK(InTable(cell));
  return {.direction = cell.direction,
          .segment_bytes = kCalibrationSizes[cell.size],
          .segments = kCalibrationCounts[cell.count]};
}

size_t BatchSegments(uint64_t segment_bytes) {
  KVT_CHECK(segment_bytes > 0);
  const auto fit = std::max<uint64_t>(kMaxCopyBytes / segment_bytes, 1);
  return std::min<size_t>(fit, kMaxCopySegments);
}

absl::Duration PredictJob(const LinkModel& link, const CopyJob& job, CopyPath path) {
  KVT_CHECK(job.segment_bytes > 0 && job.segments > 0);
  const size_t most = BatchSegments(job.segment_bytes);
  const size_t whole = job.segments / most;
  const auto predict = [&](size_t batches, size_t rest) {
    std::vector<CopyShape> shapes;
    shapes.reserve(batches + 1);
    const auto add = [&](size_t segments) {
      shapes.push_back({.direction = job.direction,
                        .path = path,
                        .segments = segments,
                        .bytes = segments * job.segment_bytes});
    };
    for (size_t i = 0; i < batches; ++i) add(most);
    if (rest > 0) add(rest);
    return link.PredictLane(shapes);
  };
  // A lane with two batches in flight soon repeats itself, every two batches.
  size_t first = whole;
  if (whole > kSteadyBatches) first = kSteadyBatches + (whole - kSteadyBatches) % 2;
  absl::Duration time = predict(first, job.segments % most);
  if (first < whole) {
    const absl::Duration two = predict(first, 0) - predict(first - 2, 0);
    const size_t pairs = (whole - first) / 2;
    time += static_cast<double>(pairs) * two;
  }
  return time;
}

absl::Status CalibrationTable::Calibrate(const CalibrationCell& cell,
                                         std::span<const absl::Duration> samples) {
  if (!InTable(cell)) {
    return absl::InvalidArgumentError(absl::StrCat("calibration: no cell of direction ",
                                                   cell.direction, ", path ", cell.path, ", size ",
                                                   cell.size, ", count ", cell.count));
  }
  if (samples.size() < kMinCalibrationSamples) {
    return absl::InvalidArgumentError(absl::StrCat(
        "calibration: ", samples.size(), " samples, fewer than ", kMinCalibrationSamples));
  }
  for (const absl::Duration sample : samples) {
    if (sample <= absl::ZeroDuration() || sample == absl::InfiniteDuration()) {
      return absl::InvalidArgumentError(
          absl::StrCat("calibration: a sample of ", absl::FormatDuration(sample)));
    }
  }
  const absl::Duration predicted = PredictJob(link_, JobOf(cell), cell.path);
  if (predicted <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("calibration: the link model says that copies take no time");
  }
  std::vector<absl::Duration> sorted(samples.begin(), samples.end());
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  const absl::Duration known = measured(cell);
  const bool near =
      *middle <= kCalibrationHysteresis * known && known <= kCalibrationHysteresis * *middle;
  if (known == absl::ZeroDuration() || !near) Set(cell, *middle);
  return absl::OkStatus();
}

absl::Duration CalibrationTable::Time(const CopyJob& job, CopyPath path) const {
  const Place size = PlaceOf(kCalibrationSizes, job.segment_bytes);
  const Place count = PlaceOf(kCalibrationCounts, job.segments);
  const Sizes& sizes = cells_[static_cast<size_t>(job.direction)][static_cast<size_t>(path)];
  const auto of_size = [&count, &sizes](size_t i) {
    const double low = sizes[i][count.low].times_predicted;
    if (count.share == 0) return low;
    return std::lerp(low, sizes[i][count.low + 1].times_predicted, count.share);
  };
  double times = of_size(size.low);
  if (size.share > 0) times = std::lerp(times, of_size(size.low + 1), size.share);
  return times * PredictJob(link_, job, path);
}

CopyPath CalibrationTable::Choose(const CopyJob& job, LanePaths paths) const {
  CopyPath chosen = CopyPath::kBatch;
  if (paths == LanePaths::kEngine) return chosen;
  absl::Duration to_beat = Time(job, chosen) / kKernelGain;
  for (const CopyPath path : {CopyPath::kStaged, CopyPath::kDirect}) {
    const absl::Duration time = Time(job, path);
    if (time >= to_beat) continue;
    to_beat = time;
    chosen = path;
  }
  return chosen;
}

const CalibrationTable::Measured& CalibrationTable::at(const CalibrationCell& cell) const {
  KVT_CHECK(InTable(cell));
  return cells_[static_cast<size_t>(cell.direction)][static_cast<size_t>(cell.path)][cell.size]
               [cell.count];
}

void CalibrationTable::Set(const CalibrationCell& cell, absl::Duration time) {
  KVT_CHECK(InTable(cell) && time > absl::ZeroDuration());
  const absl::Duration predicted = PredictJob(link_, JobOf(cell), cell.path);
  KVT_CHECK(predicted > absl::ZeroDuration());
  Counts& counts =
      cells_[static_cast<size_t>(cell.direction)][static_cast<size_t>(cell.path)][cell.size];
  const double times = absl::FDivDuration(time, predicted);
  counts[cell.count] = {.time = time, .times_predicted = times};
  // Now, so that Time() need not look for the nearest.
  for (size_t i = cell.count + 1; i < counts.size(); ++i) {
    if (counts[i].time > absl::ZeroDuration()) break;
    counts[i].times_predicted = times;
  }
}

}  // namespace kvtier
