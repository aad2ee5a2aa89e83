// LaneDevice is a device with the lanes that all DeviceLanes of one client share there, so that a
// device pins the agent's host memory once. LaneDevices are the devices of one client.
#ifndef KVTIER_CLIENT_DEVICE_LANES_LANE_DEVICE_H_
#define KVTIER_CLIENT_DEVICE_LANES_LANE_DEVICE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "client/client.h"
#include "client/lanes/worker_lanes.h"
#include "tier_gpu/device/device.h"
#include "tier_gpu/device/outside_streams.h"

namespace kvtier {

// LaneDevice owns the device and its lanes. Thread-safe.
class LaneDevice {
 public:
  // Takes an open device, and the means to wait for its engine's streams, which is null for a
  // device without streams. Errors: as WorkerLanes::Open(). REQUIRES: `client` outlives it.
  static absl::StatusOr<std::shared_ptr<LaneDevice>> On(Client* client,
                                                        std::unique_ptr<Device> device,
                                                        std::unique_ptr<OutsideStreams> streams);
  LaneDevice(const LaneDevice&) = delete;
  LaneDevice& operator=(const LaneDevice&) = delete;

  WorkerLanes* lanes() { return lanes_.get(); }
  // Returns the device's streams; null if it has none.
  OutsideStreams* streams() { return streams_.get(); }

 private:
  LaneDevice(std::unique_ptr<Device> device, std::unique_ptr<OutsideStreams> streams)
      : device_(std::move(device)), streams_(std::move(streams)) {}

  const std::unique_ptr<Device> device_;
  const std::unique_ptr<OutsideStreams> streams_;
  std::unique_ptr<WorkerLanes> lanes_;  // Lanes of the device, opened by On() and destroyed first.
};

// LaneDevices opens each device once. Thread-safe.
class LaneDevices {
 public:
  // Returns the device of this name, "cuda:N", and opens it if nothing has it open; it is closed
  // with its last holder. A device that is opened takes blocks of up to `block_bytes`, at least of
  // 16 MiB. Errors: kInvalidArgument, naming the device: another name; it cannot be opened, with
  // the driver's text or because the build has no CUDA; it is open, for smaller blocks;
  // kResourceExhausted, no memory. REQUIRES: `client` is always the same, and outlives the device.
  absl::StatusOr<std::shared_ptr<LaneDevice>> Of(Client* client, absl::string_view device,
                                                 uint64_t block_bytes) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Mutex mu_;
  struct Opened {
    std::weak_ptr<LaneDevice> device;
    uint64_t largest_block = 0;
  };
  std::map<std::string, Opened, std::less<>> open_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_DEVICE_LANES_LANE_DEVICE_H_
