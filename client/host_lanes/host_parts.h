// HostParts are the objects that the jobs of one HostLanes share.
#ifndef KVTIER_CLIENT_HOST_LANES_HOST_PARTS_H_
#define KVTIER_CLIENT_HOST_LANES_HOST_PARTS_H_

#include <memory>

#include "client/client.h"
#include "client/host_lanes/host_queue.h"
#include "client/host_lanes/host_tensors.h"

namespace kvtier {

struct HostParts {
  // Borrowed; used by the lanes' own threads only, which end before these objects do.
  Client* client = nullptr;
  const HostTensors* tensors = nullptr;
  // Shared, so that calls that end after the lanes find it closed.
  std::shared_ptr<HostQueue> queue{};
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HOST_LANES_HOST_PARTS_H_
