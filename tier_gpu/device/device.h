// Device is the accelerator seam (law 9): memory that another process can map by
// file descriptor, and ordered copies between it and host memory. Two forms:
// EmulatedDevice (a memfd and modelled time) and CudaDevice, compiled when CUDA is
// found and opened when a GPU is there.
#ifndef KVTIER_TIER_GPU_DEVICE_DEVICE_H_
#define KVTIER_TIER_GPU_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/task.h"
#include "tier_gpu/device/copy.h"

namespace kvtier {

// The check of every Device::Copy(). Errors: kInvalidArgument, more than
// kMaxCopySegments, or a segment that is empty or leaves the region.
absl::Status CheckSegments(uint64_t region_bytes, std::span<const CopySegment> segments);

// Memory on the device. The memory lives until every descriptor and mapping, in
// any process, is gone.
class DeviceRegion {
 public:
  virtual ~DeviceRegion() = default;
  virtual uint64_t bytes() const = 0;
  // To be handed to a worker by SCM_RIGHTS; owned by the region.
  virtual int fd() const = 0;
};

// Executor thread only.
class Device {
 public:
  virtual ~Device() = default;
  // "emulated" or the GPU's name.
  virtual const std::string& name() const = 0;
  // Errors: kResourceExhausted, no memory; kUnavailable, the device is lost.
  virtual absl::StatusOr<std::unique_ptr<DeviceRegion>> CreateRegion(uint64_t bytes) = 0;
  // Makes host memory fit for direct copies (page-locked). REQUIRES: it stays
  // mapped while the device lives. Errors: kResourceExhausted.
  virtual absl::Status Pin(std::span<std::byte> host) = 0;
  // Copies every segment; ends when all are done. Batches of one direction run in
  // the order of the calls (one lane a direction); the segments of one batch, and
  // the two directions, in no order. Sources are read while the batch runs, not
  // when it is submitted. REQUIRES: `region` is this device's; `segments` and what
  // they name stay until the task ends (destroying it does not stop a copy that
  // has begun). Bounded by no deadline: whoever has one waits beside it.
  // Errors: kInvalidArgument, as CheckSegments(); kResourceExhausted, the lane is
  // full (retry); kUnavailable, the copy failed or the device is lost: host and
  // disk tiers go on without it. On an error the destination is undefined.
  virtual Task<absl::Status> Copy(CopyDirection direction, DeviceRegion* region,
                                  std::span<const CopySegment> segments) = 0;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_DEVICE_H_
