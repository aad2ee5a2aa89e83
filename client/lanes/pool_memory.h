// PoolMemory is the memory that the flows of one WorkerPool copy from and to.
#ifndef KVTIER_CLIENT_LANES_POOL_MEMORY_H_
#define KVTIER_CLIENT_LANES_POOL_MEMORY_H_

#include <memory>

#include "client/client.h"
#include "tier_gpu/device/device_region.h"
#include "tier_gpu/plan/stored_blocks.h"

namespace kvtier {

struct PoolMemory {
  std::unique_ptr<DeviceRegion> region;
  BlockForm form;
  SpaceHandle space{};
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_POOL_MEMORY_H_
