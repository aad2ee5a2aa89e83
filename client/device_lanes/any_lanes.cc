#include "client/device_lanes/any_lanes.h"

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

absl::Status CheckNoDevice(const EngineWork& after, const void* record) {
  if (after.kind == EngineWork::Kind::kNothing && record == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "lanes of host memory have no streams and no events; the stream, the event and the record "
      "must be absent");
}

}  // namespace

absl::StatusOr<AnyLanes> AnyLanes::Open(Client* client, LaneDevices* devices, SpaceHandle space,
                                        const KvTensors& tensors, const AnyLanesOptions& options) {
  if (options.device == "host") {
    KVT_ASSIGN_OR_RETURN(std::unique_ptr<HostLanes> lanes,
                         HostLanes::Open(client, space, tensors, {.threads = options.threads}));
    return AnyLanes(std::move(lanes));
  }
  if (options.threads != 1) {
    return absl::InvalidArgumentError(absl::StrCat("threads is ", options.threads,
                                                   "; must be 1 for lanes on a device, which "
                                                   "have no threads of their own"));
  }
  KVT_ASSIGN_OR_RETURN(const PlacedTensors placed, PlaceTensors(tensors));
  KVT_ASSIGN_OR_RETURN(std::shared_ptr<LaneDevice> device,
                       devices->Of(client, options.device, placed.geometry.block_bytes()));
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<DeviceLanes> lanes,
                       DeviceLanes::Open(client, space, tensors, std::move(device)));
  return AnyLanes(std::move(lanes));
}

absl::StatusOr<std::shared_ptr<HostJob>> AnyLanes::Offload(std::span<const EngineKey> keys,
                                                           const std::optional<EngineKey>& parent,
                                                           std::span<const uint32_t> slots,
                                                           const DeviceOffloadOptions& options) {
  if (auto* const device = std::get_if<std::unique_ptr<DeviceLanes>>(&lanes_)) {
    return (*device)->Offload(keys, parent, slots, options);
  }
  KVT_RETURN_IF_ERROR(CheckNoDevice(options.after, nullptr));
  return std::get<std::unique_ptr<HostLanes>>(lanes_)->Offload(keys, parent, slots, options.hint);
}

absl::StatusOr<std::shared_ptr<HostJob>> AnyLanes::Onboard(std::span<const EngineKey> keys,
                                                           std::span<const uint32_t> slots,
                                                           const DeviceOnboardOptions& options) {
  if (auto* const device = std::get_if<std::unique_ptr<DeviceLanes>>(&lanes_)) {
    return (*device)->Onboard(keys, slots, options);
  }
  KVT_RETURN_IF_ERROR(CheckNoDevice(options.after, options.record));
  return std::get<std::unique_ptr<HostLanes>>(lanes_)->Onboard(keys, slots, options.timeout,
                                                               options.hint);
}

absl::StatusOr<bool> AnyLanes::AwaitCopied(std::span<const uint32_t> slots,
                                           absl::Duration timeout) {
  return std::visit([&](auto& lanes) { return lanes->AwaitCopied(slots, timeout); }, lanes_);
}

HostCopyStats AnyLanes::StatsOf(HostDirection direction) const {
  return std::visit([&](const auto& lanes) { return lanes->StatsOf(direction); }, lanes_);
}

void AnyLanes::Close() {
  std::visit([](auto& lanes) { lanes->Close(); }, lanes_);
}

}  // namespace kvtier
