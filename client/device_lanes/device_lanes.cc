#include "client/device_lanes/device_lanes.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/log.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

absl::Status WithoutStreams() {
  return absl::InvalidArgumentError(
      "lanes: this device has no streams; the stream, the event and the record must be absent");
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceLanes>> DeviceLanes::Open(Client* client, SpaceHandle space,
                                                               const KvTensors& tensors,
                                                               std::shared_ptr<LaneDevice> device) {
  KVT_ASSIGN_OR_RETURN(const SpaceSpec spec, client->SpecOf(space));
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<WorkerPool> pool,
                       WorkerPool::Register(device->lanes(), tensors, spec));
  auto opened = absl::WrapUnique(new DeviceLanes(pool->form()));
  const absl::MutexLock lock(&opened->mu_);
  opened->device_ = std::move(device);
  opened->pool_ = std::move(pool);
  return opened;
}

void DeviceLanes::Close() {
  if (InForkedChild()) return;
  queue_->Close();
  std::shared_ptr<LaneDevice> device;
  std::unique_ptr<WorkerPool> pool;
  {
    const absl::MutexLock lock(&mu_);
    device = std::move(device_);
    pool = std::move(pool_);
  }
  // Jobs end with the pool, and use the device until then.
  pool.reset();
}

absl::StatusOr<std::shared_ptr<HostJob>> DeviceLanes::Offload(
    std::span<const EngineKey> keys, const std::optional<EngineKey>& parent,
    std::span<const uint32_t> slots, const DeviceOffloadOptions& asked) {
  return Start(
      HostDirection::kOffload, slots,
      [&](const std::shared_ptr<HostJob>& job) ABSL_SHARED_LOCKS_REQUIRED(mu_) -> absl::Status {
        OffloadOptions options;
        options.parent = parent;
        options.hint = asked.hint;
        options.mark_timeout = kWorkTimeout;
        options.hooks = HooksOf(job);
        options.hooks.copied = [queue = queue_, job] { return queue->EndReading(job); };
        KVT_ASSIGN_OR_RETURN(options.after, MarkOf(asked.after));
        return pool_->Offload({keys, slots}, options).status();
      });
}

absl::StatusOr<std::shared_ptr<HostJob>> DeviceLanes::Onboard(std::span<const EngineKey> keys,
                                                              std::span<const uint32_t> slots,
                                                              const DeviceOnboardOptions& asked) {
  if (asked.timeout && *asked.timeout < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "timeout is ", absl::FormatDuration(*asked.timeout), "; must not be negative"));
  }
  return Start(HostDirection::kOnboard, slots,
               [&](const std::shared_ptr<HostJob>& job)
                   ABSL_SHARED_LOCKS_REQUIRED(mu_) -> absl::Status {
                     LaneOnboardOptions options;
                     options.timeout = asked.timeout;
                     options.hint = asked.hint;
                     options.mark_timeout = kWorkTimeout;
                     options.hooks = HooksOf(job);
                     KVT_ASSIGN_OR_RETURN(options.after, MarkOf(asked.after));
                     if (asked.record != nullptr) {
                       KVT_ASSIGN_OR_RETURN(options.hooks.submitted, RecordHook(job, asked.record));
                     }
                     return pool_->Onboard({keys, slots}, options).status();
                   });
}

absl::StatusOr<std::function<void(const LayerMark&)>> DeviceLanes::RecordHook(
    const std::shared_ptr<HostJob>& job, void* event) const {
  OutsideStreams* const streams = device_->streams();
  if (streams == nullptr) return WithoutStreams();
  return [streams, job, event](const LayerMark& behind) {
    const absl::Status recorded = streams->RecordBehind(behind.word, behind.value, event);
    if (recorded.ok()) return job->MarkRecorded();
    Log(LogLevel::kWarning, absl::StrCat("lanes: the event after a layer was not recorded, so a "
                                         "stream that waits for it may go on too early: ",
                                         std::string(recorded.message())));
  };
}

absl::StatusOr<ComputeMark> DeviceLanes::MarkOf(const EngineWork& work) const {
  if (work.kind == EngineWork::Kind::kNothing) return ComputeMark();
  if (device_->streams() == nullptr) return WithoutStreams();
  KVT_ASSIGN_OR_RETURN(WorkMark mark, device_->streams()->MarkOf(work));
  return ComputeMark{.word = mark.word, .value = mark.value, .keep = std::move(mark.keep)};
}

JobHooks DeviceLanes::HooksOf(const std::shared_ptr<HostJob>& job) const {
  JobHooks hooks;
  hooks.ended = [queue = queue_, job, bytes = block_bytes_](JobEnd end) {
    queue->Count(job->direction(), end.copied, end.copied * bytes, end.copying);
    queue->End(job, end.status, std::move(end.results), end.failed);
  };
  return hooks;
}

template <typename Submit>
absl::StatusOr<std::shared_ptr<HostJob>> DeviceLanes::Start(HostDirection direction,
                                                            std::span<const uint32_t> slots,
                                                            Submit submit) {
  KVT_RETURN_IF_ERROR(CheckSlots(slots));
  auto job =
      std::make_shared<HostJob>(direction, std::vector<uint32_t>(slots.begin(), slots.end()));
  if (InForkedChild()) return job;
  const absl::ReaderMutexLock lock(&mu_);
  KVT_RETURN_IF_ERROR(queue_->Admit(job));
  absl::Status status = pool_ != nullptr
                            ? submit(job)
                            : absl::FailedPreconditionError("lanes: they are closed; open others");
  if (status.ok()) return job;
  queue_->End(job, status, std::vector<bool>(slots.size()), 0);
  return status;
}

absl::StatusOr<bool> DeviceLanes::AwaitCopied(std::span<const uint32_t> slots,
                                              absl::Duration timeout) {
  KVT_RETURN_IF_ERROR(CheckSlots(slots));
  return InForkedChild() || queue_->AwaitCopied(slots, timeout);
}

HostCopyStats DeviceLanes::StatsOf(HostDirection direction) const {
  return InForkedChild() ? HostCopyStats() : queue_->StatsOf(direction);
}

absl::Status DeviceLanes::CheckSlots(std::span<const uint32_t> slots) const {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] < slots_) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("blocks[", i, "] is ", slots[i], "; must be below ", slots_));
  }
  return absl::OkStatus();
}

}  // namespace kvtier
