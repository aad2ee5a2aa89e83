// HostParts are what the jobs of one HostLanes share.
#ifndef KVTIER_CLIENT_HOST_LANES_HOST_PARTS_H_
#define KVTIER_CLIENT_HOST_LANES_HOST_PARTS_H_

#include <memory>

#include "client/client.h"
#include "client/host_lanes/host_queue.h"
#include "client/host_lanes/host_tensors.h"

namespace kvtier {

struct HostParts {
  // Not owned; used by the lanes' own threads only, which end before they do.
  Client* client = nullptr;
  const HostTensors* tensors = nullptr;
  std::shared_ptr<HostQueue> queue{};  // Calls that end behind the lanes find it closed.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HOST_LANES_HOST_PARTS_H_
