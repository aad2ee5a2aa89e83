#include "client/lanes/worker_lanes.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "client/lanes/calibration_file.h"
#include "core/log.h"
#include "core/status_macros.h"

namespace kvtier {

namespace {

// What the file has of this device, if anything.
std::optional<CalibrationTable> KeptTable(const WorkerLanesOptions& options) {
  if (options.calibration_file.empty()) return std::nullopt;
  const auto kept = ReadCalibration(options.calibration_file, options.calibrated, options.link);
  if (kept.ok()) return *kept;
  if (kept.status().code() != absl::StatusCode::kNotFound) {
    Log(LogLevel::kWarning,
        absl::StrCat("worker lanes: calibrating anew: ", std::string(kept.status().message())));
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerLanes>> WorkerLanes::Open(Client* client, Device* device,
                                                               const WorkerLanesOptions& options) {
  KVT_RETURN_IF_ERROR(device->state());
  if (!options.calibration_file.empty() &&
      (options.calibrated.gpu.empty() || options.calibrated.driver.empty())) {
    return absl::InvalidArgumentError(absl::StrCat("calibrated is empty; calibration_file, \"",
                                                   options.calibration_file,
                                                   "\", is of a device and driver"));
  }
  Memory memory;
  KVT_ASSIGN_OR_RETURN(memory.progress, SignalPage::Create());
  KVT_ASSIGN_OR_RETURN(memory.steps, SignalPage::Create());
  if (device->has_kernels()) {
    KVT_ASSIGN_OR_RETURN(memory.outcomes, OutcomeSlab::Pin(device));
  }
  const std::array pages = {memory.progress, memory.steps};
  const std::optional<CalibrationTable> kept = KeptTable(options);
  auto lanes = absl::WrapUnique(new WorkerLanes(
      client, device, options, kept.value_or(CalibrationTable(options.link)), std::move(memory)));
  if (!kept) KVT_RETURN_IF_ERROR(lanes->Calibrate());
  KVT_RETURN_IF_ERROR(lanes->On([device, &pages] {
    absl::Status pinned;
    for (const auto& page : pages) pinned.Update(device->Pin(page->bytes()));
    return pinned;
  }));
  lanes->executor_.Post([lanes = lanes.get()] { lanes->KeepPinned(); });
  return lanes;
}

WorkerLanes::WorkerLanes(Client* client, Device* device, const WorkerLanesOptions& options,
                         const CalibrationTable& table, Memory memory)
    : options_(options),
      table_(table),
      outcomes_(std::move(memory.outcomes)),
      runner_(device, &executor_, &executor_),
      pins_(client, device, &executor_),
      words_(std::move(memory.progress)),
      steps_({.client = client, .device = device, .executor = &executor_, .runner = &runner_},
             std::move(memory.steps)),
      parts_{.client = client,
             .device = device,
             .executor = &executor_,
             .runner = &runner_,
             .pins = &pins_,
             .words = &words_,
             .outcomes = outcomes_.get(),
             .table = &table_,
             .pin_chunk_bytes = options.pin_chunk_bytes} {
  runner_.Observe(
      [this](CopyDirection direction, const LaneRunner::Batch& batch, absl::Duration took) {
        samples_.Add(direction, batch.path, batch.segments, took);
      });
}

WorkerLanes::~WorkerLanes() {
  // Pools waited for their jobs; what is left of those is their frames.
  {
    const absl::MutexLock lock(&mu_);
    const auto idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return jobs_[0] == 0 && jobs_[1] == 0;
    };
    mu_.Await(absl::Condition(&idle));
  }
  On([this] {
    scope_.reset();
    return true;
  });
  pins_.Stop();
  executor_.Stop();
  pins_.Drop();
  if (!options_.calibration_file.empty() && samples_.calibrated() > 0) SaveCalibration();
  // They are there unless the device was lost ahead of them.
  parts_.device->Unpin(words_.page()->bytes()).IgnoreError();
  parts_.device->Unpin(steps_.page().bytes()).IgnoreError();
}

absl::Status WorkerLanes::Calibrate() {
  if (options_.calibration_file.empty() || options_.calibration_job_bytes == 0) {
    return absl::OkStatus();
  }
  const auto cells = On([this] {
    return SweepCalibration(parts_.device, {.max_job_bytes = options_.calibration_job_bytes},
                            &table_);
  });
  if (cells.ok()) {
    Log(LogLevel::kInfo, absl::StrCat("worker lanes: measured ", *cells, " cells of ",
                                      parts_.device->name(), " for ", options_.calibration_file));
    SaveCalibration();
    return absl::OkStatus();
  }
  // What runs on would be taken for a copy of the lanes'.
  if (absl::IsDeadlineExceeded(cells.status())) return cells.status();
  Log(LogLevel::kWarning,
      absl::StrCat("worker lanes: not calibrated, copies go by the link model: ",
                   std::string(cells.status().message())));
  return parts_.device->state();
}

void WorkerLanes::SaveCalibration() const {
  const Calibration calibration = {.device = options_.calibrated, .table = table_};
  const absl::Status saved = WriteCalibration(options_.calibration_file, calibration);
  if (!saved.ok()) Log(LogLevel::kWarning, std::string(saved.message()));
}

void WorkerLanes::KeepPinned() {
  pins_.Refresh();
  executor_.PostAt(executor_.Now() + kPinInterval, [this] { KeepPinned(); });
}

absl::Status WorkerLanes::Start(CopyDirection direction, Flow flow,
                                absl::AnyInvocable<void()> ended) {
  {
    const absl::MutexLock lock(&mu_);
    size_t& jobs = jobs_[static_cast<size_t>(direction)];
    if (jobs == kMaxJobs) {
      return absl::ResourceExhaustedError(
          absl::StrCat("lanes: all of ", kMaxJobs, " jobs of the direction are under way"));
    }
    ++jobs;
  }
  executor_.Post([this, direction, flow = std::move(flow), ended = std::move(ended)]() mutable {
    scope_->Spawn(RunJob(direction, std::move(flow), std::move(ended)));
  });
  return absl::OkStatus();
}

Task<void> WorkerLanes::RunJob(CopyDirection direction, Flow flow,
                               absl::AnyInvocable<void()> ended) {
  Task<Tell> run = flow(parts_);
  Tell tell = co_await run;
  {
    const absl::MutexLock lock(&mu_);
    --jobs_[static_cast<size_t>(direction)];
  }
  // The destructor takes its turn on this thread after all of this.
  tell();
  tell = nullptr;
  run = {};
  ended();
}

}  // namespace kvtier
