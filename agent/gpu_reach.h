// GpuReach knows how far into the GPU pool those sessions reach that map it once and for
// all: workers of an older release, which do not follow when handles come and go. They are
// given no slot of memory that came later. All other sessions reach every slot, and are
// told of the pool's version with each.
//
// Executor thread only.
#ifndef KVTIER_AGENT_GPU_REACH_H_
#define KVTIER_AGENT_GPU_REACH_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "agent/sessions.h"
#include "tier_gpu/gpu_pool.h"

namespace kvtier {

class GpuReach {
 public:
  // Does not own.
  explicit GpuReach(const GpuPool* pool) : pool_(pool) {}

  // The session maps the pool as it is now and never again; only the first time counts.
  void MappedForGood(SessionId session) { mapped_.try_emplace(session, pool_->version()); }
  void Close(SessionId session) { mapped_.erase(session); }
  // The slot's memory is in what the session has mapped or can map. False also for one that
  // is to leave the pool: nobody is given it anew. REQUIRES: the pool has the slot.
  bool Reaches(SessionId session, uint32_t slot) const {
    if (slot >= pool_->table().closed_from()) return false;
    const auto mapped = mapped_.find(session);
    return mapped == mapped_.end() || pool_->since(slot) <= mapped->second;
  }

 private:
  const GpuPool* const pool_;
  absl::flat_hash_map<SessionId, uint64_t> mapped_;  // The pool's version then.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_REACH_H_
