// PoolMemory is what the flows of one WorkerPool copy from and to.
#ifndef KVTIER_CLIENT_LANES_POOL_MEMORY_H_
#define KVTIER_CLIENT_LANES_POOL_MEMORY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "client/client.h"
#include "client/granted_slots.h"
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
  // Of a pool of granted slots: the memory is the worker's as long as they are valid.
  std::optional<GrantedSlots> granted;

  bool ours() const { return !granted || granted->valid(); }
};

// One copy that holds slots of the GPU pool: a step of its own, so that the agent gives
// them to nobody before it has ended, whatever becomes of the session.
class HeldSlots {
 public:
  HeldSlots(Client* client, const PoolMemory& memory)
      : client_(client), step_(memory.granted ? client->BeginCopy() : 0) {}
  ~HeldSlots() { client_->EndCopy(step_); }
  HeldSlots(const HeldSlots&) = delete;
  HeldSlots& operator=(const HeldSlots&) = delete;

 private:
  Client* const client_;
  const uint64_t step_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_POOL_MEMORY_H_
