#include "tier_gpu/plan/calibration.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {
namespace {

constexpr std::array<CopyPath, kCopyPaths> kPaths = {CopyPath::kBatch, CopyPath::kStaged,
                                                     CopyPath::kDirect};

bool InTable(const CalibrationCell& cell) {
  return static_cast<size_t>(cell.direction) < kCopyDirections &&
         static_cast<size_t>(cell.path) < kCopyPaths && cell.size < kCalibrationSizes.size() &&
         cell.count < kCalibrationCounts.size();
}

// Where a value lies between two points: at `low`, and `share` of the way to the next.
// Below the first point it is the first; past the last the share is of the last, more
// than 1, of a line through the origin.
struct Place {
  size_t low = 0;
  double share = 0;
  double beyond = 1;
};

template <typename Points>
Place PlaceOf(const Points& points, uint64_t value) {
  if (value <= points.front()) return {};
  if (value >= points.back()) {
    const double beyond = static_cast<double>(value) / static_cast<double>(points.back());
    return {.low = points.size() - 1, .beyond = beyond};
  }
  const auto above = std::ranges::upper_bound(points, value);
  const auto low = static_cast<size_t>(above - points.begin()) - 1;
  return {.low = low,
          .share = static_cast<double>(value - points[low]) /
                   static_cast<double>(points[low + 1] - points[low])};
}

}  // namespace

absl::Duration PredictJob(const LinkModel& link, const CopyJob& job, CopyPath path) {
  KVT_CHECK(job.segment_bytes > 0 && job.segments > 0);
  const size_t fit = std::max<size_t>(kMaxCopyBytes / job.segment_bytes, 1);
  const size_t most = std::min(fit, kMaxCopySegments);
  std::vector<CopyShape> shapes;
  for (size_t left = job.segments; left > 0; left -= std::min(left, most)) {
    const size_t segments = std::min(left, most);
    shapes.push_back({.direction = job.direction,
                      .path = path,
                      .segments = segments,
                      .bytes = segments * job.segment_bytes});
  }
  return link.PredictLane(shapes);
}

CalibrationTable::CalibrationTable(const LinkModel& link) {
  for (const auto direction : {CopyDirection::kHostToDevice, CopyDirection::kDeviceToHost}) {
    for (const CopyPath path : kPaths) {
      for (size_t size = 0; size < kCalibrationSizes.size(); ++size) {
        for (size_t count = 0; count < kCalibrationCounts.size(); ++count) {
          const CopyJob job = {.direction = direction,
                               .segment_bytes = kCalibrationSizes[size],
                               .segments = kCalibrationCounts[count]};
          Set({.direction = direction, .path = path, .size = size, .count = count},
              {.time = PredictJob(link, job, path)});
        }
      }
    }
  }
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
  std::vector<absl::Duration> sorted(samples.begin(), samples.end());
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  const CalibratedTime& known = at(cell);
  const bool near = *middle <= kCalibrationHysteresis * known.time &&
                    known.time <= kCalibrationHysteresis * *middle;
  if (!known.measured || !near) Set(cell, {.time = *middle, .measured = true});
  return absl::OkStatus();
}

absl::Duration CalibrationTable::Time(const CopyJob& job, CopyPath path) const {
  const Place size = PlaceOf(kCalibrationSizes, job.segment_bytes);
  const Place count = PlaceOf(kCalibrationCounts, job.segments);
  const Sizes& sizes = times_[static_cast<size_t>(job.direction)][static_cast<size_t>(path)];
  const auto of_size = [&count, &sizes](size_t i) {
    const absl::Duration low = sizes[i][count.low].time;
    if (count.share == 0) return count.beyond * low;
    return low + count.share * (sizes[i][count.low + 1].time - low);
  };
  const absl::Duration low = of_size(size.low);
  if (size.share == 0) return size.beyond * low;
  return low + size.share * (of_size(size.low + 1) - low);
}

CopyPath CalibrationTable::Choose(const CopyJob& job, LaneOwner owner) const {
  CopyPath chosen = CopyPath::kBatch;
  if (owner == LaneOwner::kAgent) return chosen;
  absl::Duration to_beat = Time(job, chosen) / kKernelGain;
  for (const CopyPath path : {CopyPath::kStaged, CopyPath::kDirect}) {
    const absl::Duration time = Time(job, path);
    if (time >= to_beat) continue;
    to_beat = time;
    chosen = path;
  }
  return chosen;
}

const CalibratedTime& CalibrationTable::at(const CalibrationCell& cell) const {
  KVT_CHECK(InTable(cell));
  return times_[static_cast<size_t>(cell.direction)][static_cast<size_t>(cell.path)][cell.size]
               [cell.count];
}

void CalibrationTable::Set(const CalibrationCell& cell, const CalibratedTime& time) {
  KVT_CHECK(InTable(cell) && (!time.measured || time.time > absl::ZeroDuration()));
  times_[static_cast<size_t>(cell.direction)][static_cast<size_t>(cell.path)][cell.size]
        [cell.count] = time;
}

}  // namespace kvtier
