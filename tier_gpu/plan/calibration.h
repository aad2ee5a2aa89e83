// CalibrationTable says how long each path takes to move a job of so many segments of
// one size, and so which path to take. It begins as a LinkModel's prediction. What is
// measured on the device says, cell by cell, how many times as long it really takes: so
// what is between two cells keeps the model's form, which has cliffs and steps, and the
// device's speed.
//
// A cell that was not measured takes that ratio from the nearest with fewer segments, of
// its direction, path and size, that was: a long job repeats the batches of a short one,
// which may be all that is ever measured. Without one, the job takes what is predicted.
// It is not taken from more segments, whose batches hide the costs of a short job, nor
// from another size, whose costs are others. Between cells the ratio is a straight line,
// in both size and count, whether they were measured or take another's.
//
// A value, some 10 KB. Pure: samples come in, nothing is measured here. Not for two
// threads at once where one calibrates.
#ifndef KVTIER_TIER_GPU_PLAN_CALIBRATION_H_
#define KVTIER_TIER_GPU_PLAN_CALIBRATION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tier_gpu/device/copy.h"
#include "tier_gpu/device/link_model.h"

namespace kvtier {

// What is measured. Between two of them what is measured beside what was predicted is a
// straight line in both; 27 and 28 KiB are the two sides of a cliff that H100s have.
inline constexpr std::array<uint64_t, 15> kCalibrationSizes = {
    1 << 10,  2 << 10,   4 << 10,   8 << 10,   16 << 10,   27 << 10,   28 << 10,  32 << 10,
    64 << 10, 128 << 10, 256 << 10, 512 << 10, 1024 << 10, 2048 << 10, 4096 << 10};
inline constexpr std::array<size_t, 7> kCalibrationCounts = {1, 4, 16, 64, 256, 1024, 4096};

// Fewer are noise: five flapped between thresholds 16 times apart on one machine.
inline constexpr size_t kMinCalibrationSamples = 25;
// A measured time stays until a new median is as many times longer or shorter.
inline constexpr double kCalibrationHysteresis = 1.15;
// A path with a kernel takes multiprocessors from the engine's own work, so it has to
// be as many times faster.
inline constexpr double kKernelGain = 1.04;

struct CalibrationCell {
  CopyDirection direction = CopyDirection::kHostToDevice;
  CopyPath path = CopyPath::kBatch;
  size_t size = 0;   // Of kCalibrationSizes.
  size_t count = 0;  // Of kCalibrationCounts.
};

// Segments of one size that go in one direction.
struct CopyJob {
  CopyDirection direction = CopyDirection::kHostToDevice;
  uint64_t segment_bytes = 0;  // 1 or more.
  size_t segments = 0;         // 1 or more.
};

// The cell's. REQUIRES: it is in the table.
CopyJob JobOf(const CalibrationCell& cell);
// So many segments of a job the planner puts into one batch.
size_t BatchSegments(uint64_t segment_bytes);

// Which paths a lane may take. kEngine: kBatch alone. That is an agent's, whose kernels would
// take turns with the worker's, and that of a device that was opened without.
enum class LanePaths : uint8_t { kEngine, kAll };

// What the link says of a job, cut into batches of one path as the planner does it. Takes
// no longer for a long job than for a short one.
absl::Duration PredictJob(const LinkModel& link, const CopyJob& job, CopyPath path);

class CalibrationTable {
 public:
  // Nothing is measured.
  explicit CalibrationTable(const LinkModel& link) : link_(link) {}

  // `samples` are times of the cell's whole job. Their median becomes the cell's time if
  // that was a prediction, or is left by more than the hysteresis. Errors:
  // kInvalidArgument, the cell is not in the table, too few samples, or one that is not
  // a time, or the link predicts that the job takes none; the table is as before.
  absl::Status Calibrate(const CalibrationCell& cell, std::span<const absl::Duration> samples);

  absl::Duration Time(const CopyJob& job, CopyPath path) const;
  // The fastest of `paths`.
  CopyPath Choose(const CopyJob& job, LanePaths paths) const;

  // Of a cell's job; zero, nothing was measured. REQUIRES of both: the cell is in the table;
  // of Set() also: `time` is positive, and so is what the link predicts.
  absl::Duration measured(const CalibrationCell& cell) const { return at(cell).time; }
  void Set(const CalibrationCell& cell, absl::Duration time);
  const LinkModel& link() const { return link_; }

 private:
  struct Measured {
    absl::Duration time{};
    double times_predicted = 1;  // Its own, or what it takes from fewer segments.
  };
  using Counts = std::array<Measured, kCalibrationCounts.size()>;
  using Sizes = std::array<Counts, kCalibrationSizes.size()>;

  const Measured& at(const CalibrationCell& cell) const;

  LinkModel link_;
  std::array<std::array<Sizes, kCopyPaths>, kCopyDirections> cells_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_PLAN_CALIBRATION_H_
