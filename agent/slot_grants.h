// SlotGrants are the slots of the GPU pool that workers use as their own KV memory: held
// for a session until it gives them back or ends. What is in them is the worker's affair.
//
// Executor thread only.
#ifndef KVTIER_AGENT_SLOT_GRANTS_H_
#define KVTIER_AGENT_SLOT_GRANTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "agent/evict.h"
#include "agent/sessions.h"
#include "tier_gpu/gpu_pool.h"

namespace kvtier {

class SlotGrants {
 public:
  // Neither is owned. `pool` may be null: then nothing can be had.
  SlotGrants(Evictor* evictor, GpuPool* pool) : evictor_(evictor), pool_(pool) {}

  // Up to `count` slots, numbers of the pool. Errors: kInvalidArgument, no pool has slots
  // for blocks of this size; kResourceExhausted, the session would hold more than
  // kMaxSlotsPerSession, or not a single slot can be had.
  absl::StatusOr<std::vector<uint32_t>> Take(SessionId session, uint64_t block_bytes,
                                             uint32_t count);
  // Slots that the session does not hold are ignored.
  void Release(SessionId session, std::span<const uint32_t> slots);
  void ReleaseAll(SessionId session) { held_.erase(session); }
  size_t size() const;  // Slots, of all sessions.

 private:
  Evictor* const evictor_;
  GpuPool* const pool_;
  absl::flat_hash_map<SessionId, absl::flat_hash_map<uint32_t, GpuSlot>> held_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SLOT_GRANTS_H_
