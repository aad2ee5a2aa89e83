// ReservationTable holds the slots that workers were given to write. A reserved
// block is nobody else's to put until it is committed, given back, or late.
//
// A late reservation can no longer be committed, and its key is free for others;
// but its slot stays taken until the session gives it back or ends, because a slow
// worker may still be writing there.
//
// Executor thread only.
#ifndef KVTIER_AGENT_RESERVATIONS_H_
#define KVTIER_AGENT_RESERVATIONS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/gpu_workers.h"
#include "agent/sessions.h"
#include "core/block_proof.h"
#include "tier_gpu/gpu_pool.h"
#include "tier_host/host_tier.h"

namespace kvtier {

enum class ReservationId : uint64_t {};

// What becomes a block at commit: one of the two slots is set.
struct PendingBlock {
  BlockMeta meta;  // Without its sum.
  DomainId domain{};
  HostSlot host;
  GpuSlot gpu;
  GpuHold writer;  // The worker's own, on `gpu`: until it is done writing there.
};

class ReservationTable {
 public:
  // True: some session is putting this block now.
  bool IsPending(const BlockKey& key) const { return pending_keys_.contains(key); }
  // REQUIRES: the key is not pending. Errors: kResourceExhausted at
  // kMaxReservationsPerSession.
  absl::StatusOr<ReservationId> Add(SessionId session, PendingBlock block, absl::Time deadline);
  // Takes the block out for committing; its key stays pending until Finish().
  // nullopt: unknown, late, or another session's.
  std::optional<PendingBlock> Take(SessionId session, ReservationId id);
  void Finish(const BlockKey& key) { pending_keys_.erase(key); }
  // Gives slots back. Ids that are unknown or another session's are ignored.
  void Release(SessionId session, std::span<const ReservationId> ids);
  void ReleaseAll(SessionId session);
  // Marks what is past its deadline as late; returns how many.
  size_t Expire(absl::Time now);
  size_t size() const { return reservations_.size(); }
  void Audit() const;

 private:
  struct Reserved {
    SessionId session{};
    PendingBlock block;
    absl::Time deadline;
    bool late = false;
  };
  using Reservations = std::map<ReservationId, Reserved>;
  Reservations::iterator End(Reservations::iterator reserved);

  uint64_t next_id_ = 1;
  Reservations reservations_;
  std::map<std::pair<absl::Time, ReservationId>, Reservations::iterator> by_deadline_;
  absl::flat_hash_set<BlockKey> pending_keys_;
  absl::flat_hash_map<SessionId, size_t> counts_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_RESERVATIONS_H_
