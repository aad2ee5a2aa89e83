// SlotGrants are the slots of the GPU pool that workers use as their own KV memory: they are held
// for a session until it gives them back, or has ended and its process writes them no more. Only
// the worker knows what is in them. Others get a slot after the steps of the worker that may still
// use it.
//
// Executor thread only.
#ifndef KVTIER_AGENT_GPU_SLOT_GRANTS_H_
#define KVTIER_AGENT_GPU_SLOT_GRANTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/block_run.h"
#include "agent/gpu/gpu_evict.h"
#include "agent/gpu/gpu_workers.h"
#include "tier_gpu/gpu_pool.h"

namespace kvtier {

class SlotGrants {
 public:
  // Takes parts that it does not own.
  SlotGrants(GpuEvictor* evictor, GpuPool* pool, GpuWorkers* workers)
      : evictor_(evictor), pool_(pool), workers_(workers) {}

  // Grants the session up to `count` slots, and returns their numbers in the pool. Errors:
  // kResourceExhausted, the session would hold more than kMaxSlotsPerSession, or not a single slot
  // can be had.
  absl::StatusOr<std::vector<uint32_t>> Take(SessionId session, uint32_t count);
  // Grants a slot that the caller took for the session. REQUIRES: the session is open, and
  // CheckRoom() is OK.
  void Grant(SessionId session, GpuSlot slot);
  // Holds each slot once more for the agent, so that no slot is used again while it is copied, even
  // if the session ends. Returns these holds. Errors: kInvalidArgument, naming a slot that the
  // session does not hold, or that is named twice.
  absl::StatusOr<std::vector<GpuSlot>> HoldAgain(SessionId session,
                                                 std::span<const uint32_t> slots) const;
  // Errors: kResourceExhausted, the session would hold more than kMaxSlotsPerSession.
  absl::Status CheckRoom(SessionId session, size_t count) const;
  // Releases slots of the session. Ignores those that it does not hold.
  void Release(SessionId session, std::span<const uint32_t> slots);
  // Ends a session whose worker perhaps still runs: its slots stay taken. Returns how many.
  size_t EndSession(SessionId session);
  // Releases the slots of a session that writes no more, except in steps that have not ended.
  void ReleaseAll(SessionId session) { held_.erase(session); }
  size_t size() const;  // Slots, of all sessions.
  // Returns the bytes of granted slots that hold no token, as far as workers of open sessions tell.
  uint64_t UnusedBytes() const;

 private:
  struct Granted {
    GpuSlot slot;
    GpuHold hold;  // The worker's hold; empty if the worker has no number in the pool.
  };

  GpuEvictor* const evictor_;
  GpuPool* const pool_;
  GpuWorkers* const workers_;
  // Granted slots of each session, by slot number.
  absl::flat_hash_map<SessionId, absl::flat_hash_map<uint32_t, Granted>> held_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_SLOT_GRANTS_H_
