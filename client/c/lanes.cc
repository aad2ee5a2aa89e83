// Implements kvtier_lanes.h.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/c/call_request.h"
#include "client/c/handles.h"
#include "client/c/kvtier_lanes.h"
#include "client/c/pieces.h"
#include "client/device_lanes/any_lanes.h"
#include "core/status_macros.h"

struct kvtier_lanes {
  kvtier::AnyLanes lanes;
};

struct kvtier_lane_job {
  std::shared_ptr<kvtier::HostJob> job;  // The job, never null.
};

namespace kvtier::c {
namespace {

absl::StatusOr<KvAxes> AxesFrom(int32_t axes) {
  switch (axes) {
    case KVTIER_AXES_APART:
      return KvAxes::kApart;
    case KVTIER_AXES_FUSED:
      return KvAxes::kFused;
    case KVTIER_AXES_LATENT:
      return KvAxes::kLatent;
    default:
      return absl::InvalidArgumentError(absl::StrCat("memory.axes is ", axes, "; must be 0 to 2"));
  }
}

absl::StatusOr<KvTensors> TensorsFrom(const kvtier_lane_memory& memory) {
  if (memory.order != KVTIER_TOKEN_HEAD && memory.order != KVTIER_HEAD_TOKEN) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory.order is ", memory.order, "; must be 0 or 1"));
  }
  if (memory.bases == nullptr && memory.base_count > 0) {
    return absl::InvalidArgumentError("memory.bases is NULL");
  }
  KvTensors tensors{
      .order = memory.order == KVTIER_TOKEN_HEAD ? KvOrder::kTokenHead : KvOrder::kHeadToken,
      .layers = memory.layers,
      .slots = memory.blocks,
      .run_bytes = memory.run_bytes,
      .block_stride = memory.block_stride};
  KVT_ASSIGN_OR_RETURN(tensors.axes, AxesFrom(memory.axes));
  KVT_ASSIGN_OR_RETURN(tensors.tensors, PiecesFrom<Piece>(memory.tensors, memory.tensor_count));
  for (const kvtier_tensor_place& base : std::span(memory.bases, memory.base_count)) {
    tensors.bases.push_back({.tensor = base.tensor, .offset = base.offset});
  }
  return tensors;
}

absl::Status Open(kvtier_client* client, kvtier_space space, const kvtier_lane_memory* memory,
                  const AnyLanesOptions& options, kvtier_lanes** lanes) {
  if (client == nullptr || memory == nullptr || lanes == nullptr) {
    return absl::InvalidArgumentError("client, memory or lanes is NULL");
  }
  *lanes = nullptr;
  if (memory->struct_size < sizeof(kvtier_lane_memory)) {
    return absl::InvalidArgumentError(
        "memory.struct_size is too small; must be the size of the struct");
  }
  KVT_ASSIGN_OR_RETURN(const KvTensors tensors, TensorsFrom(*memory));
  KVT_ASSIGN_OR_RETURN(AnyLanes opened, AnyLanes::Open(client->client.get(), client->devices.get(),
                                                       SpaceHandle{space}, tensors, options));
  *lanes = new kvtier_lanes{std::move(opened)};
  return absl::OkStatus();
}

// Returns the work that a call waits for; NULL: none.
absl::StatusOr<EngineWork> WorkFrom(const kvtier_gpu_work* after) {
  if (after == nullptr || after->kind == KVTIER_WORK_NOTHING) return EngineWork();
  if (after->kind == KVTIER_WORK_STREAM) {
    return EngineWork{.kind = EngineWork::Kind::kStream, .handle = after->handle};
  }
  if (after->kind != KVTIER_WORK_EVENT || after->handle == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "after.kind is ", after->kind, "; must be 0 to 2, and an event must not be NULL"));
  }
  return EngineWork{.kind = EngineWork::Kind::kEvent, .handle = after->handle};
}

// Returns the options of a job, except the timeout of an onboard.
absl::StatusOr<DeviceOnboardOptions> OptionsFrom(const kvtier_lane_options* options) {
  DeviceOnboardOptions asked;
  if (options == nullptr) return asked;
  if (options->struct_size < sizeof(kvtier_lane_options)) {
    return absl::InvalidArgumentError(
        "options.struct_size is too small; must be the size of the struct");
  }
  KVT_ASSIGN_OR_RETURN(asked.after, WorkFrom(options->after));
  asked.record = options->record;
  KVT_ASSIGN_OR_RETURN(asked.hint, HintFrom(options->hint, "options."));
  return asked;
}

absl::StatusOr<std::span<const uint32_t>> BlocksFrom(const uint32_t* blocks, size_t count) {
  if (blocks == nullptr && count > 0) return absl::InvalidArgumentError("blocks is NULL");
  return std::span(blocks, count);
}

// Arguments that jobs of both directions have.
struct JobArguments {
  kvtier_lanes* lanes;
  const kvtier_bytes* keys;
  const uint32_t* blocks;
  size_t count;
};

// Fills `*job` with what `start(lanes, keys, blocks)` has begun.
template <typename Start>
int StartJob(const JobArguments& arguments, kvtier_lane_job** job, Start start) {
  return Guarded([&]() -> int {
    if (arguments.lanes == nullptr || job == nullptr) {
      return Fail(KVTIER_INVALID, "lanes or job is NULL");
    }
    *job = nullptr;
    const auto keys = KeysFrom(arguments.keys, arguments.count);
    if (!keys.ok()) return Fail(keys.status());
    const auto blocks = BlocksFrom(arguments.blocks, arguments.count);
    if (!blocks.ok()) return Fail(blocks.status());
    auto made = std::make_unique<kvtier_lane_job>();
    absl::StatusOr<std::shared_ptr<HostJob>> started =
        start(arguments.lanes->lanes, *keys, *blocks);
    if (absl::IsResourceExhausted(started.status())) {
      return Fail(KVTIER_AGAIN, std::string(started.status().message()));
    }
    if (!started.ok()) return Fail(started.status());
    made->job = *std::move(started);
    *job = made.release();
    return KVTIER_OK;
  });
}

// Returns the timeout of a wait, for which there is no default.
absl::StatusOr<absl::Duration> WaitFrom(int32_t timeout_ms) {
  KVT_ASSIGN_OR_RETURN(const std::optional<absl::Duration> timeout, TimeoutFrom(timeout_ms));
  if (!timeout) {
    return absl::InvalidArgumentError(
        "timeout_ms is KVTIER_DEFAULT_TIMEOUT; must be 0 or more, as a wait for lanes has no "
        "default");
  }
  return *timeout;
}

absl::StatusOr<bool> AwaitCopied(kvtier_lanes* lanes, const uint32_t* blocks, size_t count,
                                 int32_t timeout_ms) {
  if (lanes == nullptr) return absl::InvalidArgumentError("lanes is NULL");
  KVT_ASSIGN_OR_RETURN(const std::span<const uint32_t> slots, BlocksFrom(blocks, count));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, WaitFrom(timeout_ms));
  return lanes->lanes.AwaitCopied(slots, timeout);
}

absl::StatusOr<bool> WaitFor(const kvtier_lane_job* job, int32_t timeout_ms) {
  if (job == nullptr) return absl::InvalidArgumentError("job is NULL");
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, WaitFrom(timeout_ms));
  return job->job->Wait(timeout);
}

absl::StatusOr<bool> ResultOf(const kvtier_lane_job* job, size_t index) {
  if (job == nullptr || index >= job->job->slots().size()) {
    return absl::InvalidArgumentError("job is NULL, or index is past its keys");
  }
  if (!job->job->done()) {
    return absl::InvalidArgumentError(
        "job has not ended; must be polled or waited for until it has");
  }
  return job->job->results()[index];
}

int Answered(const absl::StatusOr<bool>& yes) {
  if (!yes.ok()) return Fail(yes.status());
  return *yes ? 1 : 0;
}

absl::Status FillStats(const AnyLanes& lanes, HostDirection direction, const char* name,
                       kvtier_lane_stats* stats) {
  if (stats == nullptr) return absl::OkStatus();
  if (stats->struct_size < sizeof(size_t)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ".struct_size is too small; must be the size of the struct"));
  }
  const HostCopyStats now = lanes.StatsOf(direction);
  const kvtier_lane_stats ours = {
      .struct_size = stats->struct_size,
      .blocks = now.blocks,
      .bytes = now.bytes,
      .failed_blocks = now.failed_blocks,
      .copy_us = static_cast<uint64_t>(absl::ToInt64Microseconds(now.copying))};
  std::memcpy(stats, &ours, std::min(stats->struct_size, sizeof(ours)));
  return absl::OkStatus();
}

absl::Status Stats(kvtier_lanes* lanes, kvtier_lane_stats* offloads, kvtier_lane_stats* onboards) {
  if (lanes == nullptr) return absl::InvalidArgumentError("lanes is NULL");
  KVT_RETURN_IF_ERROR(FillStats(lanes->lanes, HostDirection::kOffload, "offloads", offloads));
  return FillStats(lanes->lanes, HostDirection::kOnboard, "onboards", onboards);
}

int Ended(const absl::Status& status) { return status.ok() ? KVTIER_OK : Fail(status); }

std::string ErrorOf(const kvtier_lane_job* job) {
  if (job == nullptr || !job->job->done()) return "";
  return std::string(job->job->status().message());
}

}  // namespace
}  // namespace kvtier::c

using kvtier::c::Guarded;

extern "C" {

int kvtier_lanes_open(kvtier_client* client, kvtier_space space, const kvtier_lane_memory* memory,
                      uint32_t threads, kvtier_lanes** lanes) {
  return Guarded([&] {
    return kvtier::c::Ended(kvtier::c::Open(client, space, memory, {.threads = threads}, lanes));
  });
}

int kvtier_lanes_open_on(kvtier_client* client, kvtier_space space,
                         const kvtier_lane_memory* memory, const char* device,
                         kvtier_lanes** lanes) {
  return Guarded([&] {
    if (device == nullptr) return kvtier::c::Fail(KVTIER_INVALID, "device is NULL");
    return kvtier::c::Ended(kvtier::c::Open(client, space, memory, {.device = device}, lanes));
  });
}

void kvtier_lanes_close(kvtier_lanes* lanes) { delete lanes; }

int kvtier_lanes_offload(kvtier_lanes* lanes, const kvtier_bytes* parent, const kvtier_bytes* keys,
                         const uint32_t* blocks, size_t count, kvtier_lane_job** job) {
  return kvtier_lanes_offload_with(lanes, parent, keys, blocks, count, nullptr, job);
}

int kvtier_lanes_offload_with(kvtier_lanes* lanes, const kvtier_bytes* parent,
                              const kvtier_bytes* keys, const uint32_t* blocks, size_t count,
                              const kvtier_lane_options* options, kvtier_lane_job** job) {
  using Started = absl::StatusOr<std::shared_ptr<kvtier::HostJob>>;
  return kvtier::c::StartJob(
      {lanes, keys, blocks, count}, job,
      [parent, options](kvtier::AnyLanes& to, auto& run, auto slots) -> Started {
        std::optional<kvtier::EngineKey> before;
        if (parent != nullptr) {
          KVT_ASSIGN_OR_RETURN(before, kvtier::c::KeyFrom(*parent, [] { return "parent"; }));
        }
        KVT_ASSIGN_OR_RETURN(const kvtier::DeviceOnboardOptions asked,
                             kvtier::c::OptionsFrom(options));
        if (asked.record != nullptr) {
          return absl::InvalidArgumentError(
              "options.record is not NULL; must be NULL in an offload");
        }
        return to.Offload(run, before, slots, {.after = asked.after, .hint = asked.hint});
      });
}

int kvtier_lanes_onboard(kvtier_lanes* lanes, const kvtier_bytes* keys, const uint32_t* blocks,
                         size_t count, int32_t timeout_ms, kvtier_lane_job** job) {
  return kvtier_lanes_onboard_with(lanes, keys, blocks, count, timeout_ms, nullptr, job);
}

int kvtier_lanes_onboard_with(kvtier_lanes* lanes, const kvtier_bytes* keys, const uint32_t* blocks,
                              size_t count, int32_t timeout_ms, const kvtier_lane_options* options,
                              kvtier_lane_job** job) {
  using Started = absl::StatusOr<std::shared_ptr<kvtier::HostJob>>;
  return kvtier::c::StartJob(
      {lanes, keys, blocks, count}, job,
      [=](kvtier::AnyLanes& to, auto& run, auto slots) -> Started {
        KVT_ASSIGN_OR_RETURN(kvtier::DeviceOnboardOptions asked, kvtier::c::OptionsFrom(options));
        KVT_ASSIGN_OR_RETURN(asked.timeout, kvtier::c::TimeoutFrom(timeout_ms));
        return to.Onboard(run, slots, asked);
      });
}

int kvtier_lanes_await_copied(kvtier_lanes* lanes, const uint32_t* blocks, size_t count,
                              int32_t timeout_ms) {
  return Guarded([&] {
    return kvtier::c::Answered(kvtier::c::AwaitCopied(lanes, blocks, count, timeout_ms));
  });
}

int kvtier_lanes_stats(kvtier_lanes* lanes, kvtier_lane_stats* offloads,
                       kvtier_lane_stats* onboards) {
  return Guarded([&] { return kvtier::c::Ended(kvtier::c::Stats(lanes, offloads, onboards)); });
}

int kvtier_lane_job_done(const kvtier_lane_job* job) {
  return job != nullptr && job->job->done() ? 1 : 0;
}

int kvtier_lane_job_copied(const kvtier_lane_job* job) {
  return job != nullptr && job->job->copied() ? 1 : 0;
}

int kvtier_lane_job_recorded(const kvtier_lane_job* job) {
  return job != nullptr && job->job->recorded() ? 1 : 0;
}

int kvtier_lane_job_wait(const kvtier_lane_job* job, int32_t timeout_ms) {
  return Guarded([&] { return kvtier::c::Answered(kvtier::c::WaitFor(job, timeout_ms)); });
}

int kvtier_lane_job_result(const kvtier_lane_job* job, size_t index) {
  return Guarded([&] { return kvtier::c::Answered(kvtier::c::ResultOf(job, index)); });
}

size_t kvtier_lane_job_error(const kvtier_lane_job* job, char* text, size_t size) {
  return kvtier::c::CopyText([job] { return kvtier::c::ErrorOf(job); }, text, size);
}

void kvtier_lane_job_free(kvtier_lane_job* job) { delete job; }

}  // extern "C"
