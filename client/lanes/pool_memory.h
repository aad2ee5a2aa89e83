// PoolMemory is what the flows of one WorkerPool copy from and to.
#ifndef KVTIER_CLIENT_LANES_POOL_MEMORY_H_
#define KVTIER_CLIENT_LANES_POOL_MEMORY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "client/client.h"
#include "client/lanes/laid_out.h"
#include "tier_gpu/device/device_region.h"
#include "tier_gpu/plan/geometry.h"

namespace kvtier {

struct PoolMemory {
  std::unique_ptr<DeviceRegion> region;
  KvGeometry geometry;
  std::vector<uint64_t> borders;  // As CopyRequest's.
  StoredForm stored;
  SpaceHandle space{};
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_POOL_MEMORY_H_
