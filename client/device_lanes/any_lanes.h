// AnyLanes are HostLanes or DeviceLanes, as the C ABI and the Python package open them by the name
// of a device.
#ifndef KVTIER_CLIENT_DEVICE_LANES_ANY_LANES_H_
#define KVTIER_CLIENT_DEVICE_LANES_ANY_LANES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/device_lanes/device_lanes.h"
#include "client/device_lanes/lane_device.h"
#include "client/host_lanes/host_lanes.h"

namespace kvtier {

struct AnyLanesOptions {
  std::string device = "host";  // "host", the memory of this process; or "cuda:N", a GPU's.
  size_t threads = 1;  // Same meaning as in HostLanesOptions. Lanes on a device have no threads: 1.
};

// AnyLanes forwards to the lanes. Thread-safe, as both are.
class AnyLanes {
 public:
  // Opens lanes. REQUIRES: `devices` are those of `client`; client and tensors outlive the lanes.
  // Errors: as HostLanes::Open(), LaneDevices::Of() and DeviceLanes::Open().
  static absl::StatusOr<AnyLanes> Open(Client* client, LaneDevices* devices, SpaceHandle space,
                                       const KvTensors& tensors, const AnyLanesOptions& options);

  // Offload() and the functions after it forward to the lanes' functions of the same name. Errors
  // also: kInvalidArgument, naming an option that lanes of host memory do not have.
  absl::StatusOr<std::shared_ptr<HostJob>> Offload(std::span<const EngineKey> keys,
                                                   const std::optional<EngineKey>& parent,
                                                   std::span<const uint32_t> slots,
                                                   const DeviceOffloadOptions& options);
  absl::StatusOr<std::shared_ptr<HostJob>> Onboard(std::span<const EngineKey> keys,
                                                   std::span<const uint32_t> slots,
                                                   const DeviceOnboardOptions& options);
  absl::StatusOr<bool> AwaitCopied(std::span<const uint32_t> slots, absl::Duration timeout);
  HostCopyStats StatsOf(HostDirection direction) const;
  void Close();

 private:
  using Lanes = std::variant<std::unique_ptr<HostLanes>, std::unique_ptr<DeviceLanes>>;
  explicit AnyLanes(Lanes lanes) : lanes_(std::move(lanes)) {}

  Lanes lanes_;  // The open lanes; never null.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_DEVICE_LANES_ANY_LANES_H_
