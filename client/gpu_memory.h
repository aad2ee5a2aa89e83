// GpuMemory describes the node's GPU pool as the agent handed it to one session at one moment. When
// the pool grows or shrinks, the session gets another GpuMemory.
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

// The pool has max_handles * handle_bytes addresses, of which handle i fills handle_bytes from
// i * handle_bytes on: Device::ImportRegion() takes the descriptors in this shape. A worker that
// imported an older GpuMemory imports the handles that differ: handle i is the same memory while
// since[i] is the same, and slots that the session holds never lie in a handle that differs. A
// worker that maps the handles in another way than `mapping` keeps this object for as long as it
// may begin a step.
struct GpuMemory {
  uint64_t handle_bytes = 0;
  size_t max_handles = 0;
  std::vector<FileDescriptor> handles;
  std::vector<uint64_t> since;  // Version of the pool with which each handle came.
  uint64_t version = 0;         // Version of the pool, from 1.
  // GPU whose memory the handles are: Device::ImportRegion() refuses them on another GPU. An
  // ordinal would not tell, since CUDA_VISIBLE_DEVICES changes ordinals.
  DeviceUuid device;
  // Mapping that follows the pool at the same addresses. Null if by_device is true, or if the pool
  // is a GPU's own memory, which mmap does not map.
  std::shared_ptr<const Mapping> mapping;
  // Whether the worker maps the handles on a device of its own (ClientOptions::gpu_by_device), and
  // has a page to say when its steps have ended.
  bool by_device = false;
  // Page for the worker's steps; null: the agent keeps no steps of this session.
  std::shared_ptr<const StepPage> steps;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_GPU_MEMORY_H_
