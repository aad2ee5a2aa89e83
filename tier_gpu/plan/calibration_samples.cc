#include "tier_gpu/plan/calibration_samples.h"

#include <algorithm>

#include "core/check.h"

namespace kvtier {
namespace {

// How many times the larger of two is the smaller.
double Factor(double a, double b) { return std::max(a, b) / std::min(a, b); }

// The nearest of the ascending values, as a factor.
template <typename Values>
size_t Nearest(const Values& values, double value) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (Factor(static_cast<double>(values[i]), value) <
        Factor(static_cast<double>(values[best]), value)) {
      best = i;
    }
  }
  return best;
}

}  // namespace

void CalibrationSamples::Add(CopyDirection direction, CopyPath path,
                             std::span<const CopySegment> segments, absl::Duration took) {
  if (segments.empty() || took <= absl::ZeroDuration()) return;
  const uint64_t bytes = segments.front().bytes;
  const bool even = std::ranges::all_of(
      segments, [bytes](const CopySegment& segment) { return segment.bytes == bytes; });
  if (!even) return;
  CalibrationCell cell = {.direction = direction, .path = path};
  cell.size = Nearest(kCalibrationSizes, static_cast<double>(bytes));
  cell.count = Nearest(kCalibrationCounts, static_cast<double>(segments.size()));
  if (Factor(static_cast<double>(kCalibrationSizes[cell.size]), static_cast<double>(bytes)) > 2) {
    return;
  }
  const CopyJob job = {.direction = direction, .segment_bytes = bytes, .segments = segments.size()};
  const absl::Duration known = table_->Time(job, path);
  if (known <= absl::ZeroDuration()) return;  // A table without a link.
  Samples& samples = samples_[static_cast<size_t>(cell.direction)][static_cast<size_t>(cell.path)]
                             [cell.size][cell.count];
  samples.push_back(absl::FDivDuration(took, known) * table_->Time(JobOf(cell), path));
  if (samples.size() < kMinCalibrationSamples) return;
  KVT_CHECK(table_->Calibrate(cell, samples).ok());
  samples.clear();
  ++calibrated_;
}

}  // namespace kvtier
