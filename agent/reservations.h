// ReservationTable holds the slots that workers were given to write. A reserved
// block is nobody else's to put until it is committed, given back, or late.
//
// A late reservation can no longer be committed, and its key is free for others;
// but its slot stays taken, because its worker may still be writing there: until it is
// given back, or nobody of its session writes any more. It is late when its deadline has
// passed, and when its session ends, which is not the end of the session's process.
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
#include "core/tier.h"
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
  // `max_late_bytes`: of host memory, in each domain, before it is given no more to write.
  explicit ReservationTable(uint64_t max_late_bytes) : max_late_bytes_(max_late_bytes) {}
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
  // Nobody of this session writes any more.
  void ReleaseAll(SessionId session);
  // The session is over, its worker perhaps not: all that it had reserved is late. Returns
  // how much that is.
  size_t EndSession(SessionId session);
  // Marks what is past its deadline as late; returns how many.
  size_t Expire(absl::Time now);
  size_t size() const { return reservations_.size(); }  // Late ones included.
  uint64_t late_bytes(Tier tier) const;                 // kHost or kGpu.
  // What is late in the domain's host memory is as much as it may be.
  bool TooMuchIsLate(DomainId domain) const;
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
  void MakeLate(Reserved* reserved);
  // Where its bytes are counted while it is late.
  uint64_t& LateBytesOf(const PendingBlock& block);

  const uint64_t max_late_bytes_;
  uint64_t next_id_ = 1;
  Reservations reservations_;
  std::map<std::pair<absl::Time, ReservationId>, Reservations::iterator> by_deadline_;
  absl::flat_hash_set<BlockKey> pending_keys_;
  absl::flat_hash_map<SessionId, size_t> counts_;
  absl::flat_hash_map<DomainId, uint64_t> late_host_bytes_;
  uint64_t late_gpu_bytes_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_RESERVATIONS_H_
