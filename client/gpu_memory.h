// GpuMemory is the node's GPU pool as one session was handed it, at one moment: when the
// pool grows or shrinks, the session has another one.
#ifndef KVTIER_CLIENT_GPU_MEMORY_H_
#define KVTIER_CLIENT_GPU_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "client/mapping.h"
#include "client/packet_socket.h"
#include "client/step_page.h"
#include "core/device_uuid.h"

namespace kvtier {

// Handle i of the pool belongs at i * handle_bytes of max_handles * handle_bytes
// addresses: the shape that Device::ImportRegion() takes with the descriptors. Who imported
// an older one takes over what differs: handle i is the same memory while since[i] is the
// same, and slots that the session holds never lie in one that differs. Who maps the handles
// another way than `mapping` keeps this for as long as a step of its may begin.
struct GpuMemory {
  uint64_t handle_bytes = 0;
  size_t max_handles = 0;
  std::vector<FileDescriptor> handles;
  std::vector<uint64_t> since;  // Of each handle: the pool's version that it came with.
  uint64_t version = 0;         // The pool's, from 1.
  // GPU that the handles are memory of: Device::ImportRegion() refuses them on another one, which a
  // process with another CUDA_VISIBLE_DEVICES knows by the same ordinal.
  DeviceUuid device;
  // Follows the pool, at the same addresses. Null: a GPU's own memory, which mmap does not
  // map, or by_device.
  std::shared_ptr<const Mapping> mapping;
  // The worker maps the handles on a device of its own (ClientOptions::gpu_by_device), and
  // has a page to say when its steps have ended.
  bool by_device = false;
  // Null: the agent keeps no steps of this session.
  std::shared_ptr<const StepPage> steps;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_GPU_MEMORY_H_
