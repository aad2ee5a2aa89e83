#include "tier_gpu/calibration_sweep.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/status_macros.h"
#include "tier_gpu/device/sealed_memory.h"

namespace kvtier {
namespace {

constexpr std::array<CopyDirection, kCopyDirections> kDirections = {CopyDirection::kHostToDevice,
                                                                    CopyDirection::kDeviceToHost};

absl::Status Failed(const absl::Status& status, absl::string_view at) {
  return absl::Status(status.code(),
                      absl::StrCat("calibration sweep: ", at, ": ", std::string(status.message())));
}

// Memory of a device, and pinned memory of the host, for the segments of one job.
class Scratch {
 public:
  // For jobs of up to `bytes`. Errors: as SweepCalibration().
  static absl::StatusOr<std::unique_ptr<Scratch>> Take(Device* device, uint64_t bytes);
  // REQUIRES: no copy uses it.
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  DeviceRegion* region() const { return region_.get(); }
  std::vector<CopySegment> SegmentsOf(const CopyJob& job) const;

 private:
  explicit Scratch(Device* device) : device_(device) {}
  absl::Status TakeHost(uint64_t bytes);

  Device* const device_;  // Not owned.
  std::span<std::byte> host_;
  bool pinned_ = false;
  std::unique_ptr<DeviceRegion> region_;
};

absl::Status Scratch::TakeHost(uint64_t bytes) {
  void* const start =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return MemoryError("mmap", bytes);
  host_ = {static_cast<std::byte*>(start), bytes};
  // As an agent's arena lies. Ignored: without huge pages it is slower to pin.
  (void)madvise(start, bytes, MADV_HUGEPAGE);
  KVT_RETURN_IF_ERROR(device_->Pin(host_));
  pinned_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Scratch>> Scratch::Take(Device* device, uint64_t bytes) {
  auto scratch = absl::WrapUnique(new Scratch(device));
  const absl::Status host = scratch->TakeHost(bytes);
  if (!host.ok()) return Failed(host, absl::StrCat(bytes, " bytes of pinned host memory"));
  const uint64_t handles = (2 * bytes + kRegionGranularity - 1) / kRegionGranularity;
  const RegionShape shape = {.handle_bytes = handles * kRegionGranularity};
  auto region = device->CreateRegion(shape, 1);
  if (!region.ok()) {
    return Failed(region.status(), absl::StrCat(shape.handle_bytes, " bytes of device memory"));
  }
  scratch->region_ = *std::move(region);
  return scratch;
}

Scratch::~Scratch() {
  region_.reset();
  if (pinned_) device_->Unpin(host_).IgnoreError();  // It is there.
  if (!host_.empty()) munmap(host_.data(), host_.size());
}

std::vector<CopySegment> Scratch::SegmentsOf(const CopyJob& job) const {
  std::vector<CopySegment> segments;
  segments.reserve(job.segments);
  for (size_t i = 0; i < job.segments; ++i) {
    segments.push_back({.device_offset = 2 * i * job.segment_bytes,
                        .host = host_.data() + i * job.segment_bytes,
                        .bytes = job.segment_bytes});
  }
  return segments;
}

// What a device still uses that does not end what it began.
void KeepForever(std::unique_ptr<Scratch> scratch) {
  static absl::Mutex mu;
  static auto* const kept ABSL_GUARDED_BY(mu) = new std::vector<std::unique_ptr<Scratch>>;
  const absl::MutexLock lock(&mu);
  kept->push_back(std::move(scratch));
}

// Runs batches of one lane behind each other; the sum of what each took on the device. On
// an error nothing of them runs any more, but for kDeadlineExceeded.
absl::StatusOr<absl::Duration> RunJob(Device* device, std::span<const CopyBatch> batches,
                                      absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  absl::Status status;
  absl::Duration took;
  size_t submitted = 0;
  size_t ended = 0;
  while (true) {
    while (status.ok() && submitted < batches.size()) {
      const absl::Status added = device->Submit(batches[submitted]).status();
      // The lane is full, and what ends makes room.
      if (absl::IsResourceExhausted(added) && ended < submitted) break;
      status.Update(added);
      if (added.ok()) ++submitted;
    }
    if (ended == submitted) break;
    std::array<Completion, 16> completions;
    const size_t count = device->Poll(completions);
    for (size_t i = 0; i < count; ++i) {
      const Completion& completion = completions[i];
      if (completion.ticket.lane != LaneOf(batches.front().direction)) continue;
      ++ended;
      status.Update(completion.status);
      took += completion.device;
    }
    if (ended < submitted && absl::Now() > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("still busy after ", absl::FormatDuration(timeout)));
    }
  }
  if (!status.ok()) return status;
  return took;
}

// One device, one table.
class Sweep {
 public:
  Sweep(Device* device, const Scratch* scratch, const CalibrationSweepOptions& options,
        CalibrationTable* table)
      : device_(device), scratch_(scratch), options_(options), table_(table) {}

  // Errors: as SweepCalibration().
  absl::Status MeasurePath(CopyPath path);
  size_t cells() const { return cells_; }

 private:
  absl::Status MeasureCell(const CalibrationCell& cell);

  Device* const device_;
  const Scratch* const scratch_;
  const CalibrationSweepOptions& options_;
  CalibrationTable* const table_;
  size_t cells_ = 0;
};

absl::Status Sweep::MeasureCell(const CalibrationCell& cell) {
  const CopyJob job = JobOf(cell);
  const std::vector<CopySegment> segments = scratch_->SegmentsOf(job);
  const size_t most = BatchSegments(job.segment_bytes);
  std::vector<CopyBatch> batches;
  for (size_t first = 0; first < segments.size(); first += most) {
    batches.push_back(
        {.direction = cell.direction,
         .path = cell.path,
         .region = scratch_->region(),
         .segments = std::span(segments).subspan(first, std::min(most, segments.size() - first))});
  }
  std::vector<absl::Duration> samples(kMinCalibrationSamples);
  for (absl::Duration& sample : samples) {
    KVT_ASSIGN_OR_RETURN(sample, RunJob(device_, batches, options_.job_timeout));
  }
  KVT_RETURN_IF_ERROR(table_->Calibrate(cell, samples));
  ++cells_;
  return absl::OkStatus();
}

absl::Status Sweep::MeasurePath(CopyPath path) {
  if (path != CopyPath::kBatch && !device_->has_kernels()) return absl::OkStatus();
  for (const CopyDirection direction : kDirections) {
    CalibrationCell cell = {.direction = direction, .path = path};
    // The longest first: a link that dozes is awake for the short ones.
    for (cell.size = kCalibrationSizes.size(); cell.size-- > 0;) {
      for (cell.count = kCalibrationCounts.size(); cell.count-- > 0;) {
        const CopyJob job = JobOf(cell);
        if (job.segment_bytes * job.segments > options_.max_job_bytes) continue;
        const absl::Status measured = MeasureCell(cell);
        if (measured.ok()) continue;
        return Failed(measured, absl::StrCat(job.segments, " segments of ", job.segment_bytes,
                                             " bytes, direction ", direction, ", path ", path));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<size_t> SweepCalibration(Device* device, const CalibrationSweepOptions& options,
                                        CalibrationTable* table) {
  if (options.max_job_bytes < kCalibrationSizes.front()) {
    return absl::InvalidArgumentError(
        absl::StrCat("calibration sweep: max_job_bytes is ", options.max_job_bytes,
                     ", less than the shortest job's ", kCalibrationSizes.front()));
  }
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<Scratch> scratch,
                       Scratch::Take(device, options.max_job_bytes));
  CalibrationTable measured = *table;
  Sweep sweep(device, scratch.get(), options, &measured);
  for (const CopyPath path : {CopyPath::kBatch, CopyPath::kStaged, CopyPath::kDirect}) {
    const absl::Status status = sweep.MeasurePath(path);
    if (status.ok()) continue;
    if (absl::IsDeadlineExceeded(status)) KeepForever(std::move(scratch));
    return status;
  }
  *table = measured;
  return sweep.cells();
}

}  // namespace kvtier
