// ReservationTable holds the slots that workers were given to write. No other worker can put a
// reserved block until it is committed, given back, or late.
//
// A late reservation can no longer be committed, and its key is free for others; but its slot stays
// taken, because its worker may still be writing there, until the slot is given back or the
// session's process surely writes no more. A reservation becomes late when its deadline has passed,
// and when its session ends, which is not the end of the session's process.
//
// A slot of host memory that a worker gives back while its steps run is late until these steps have
// ended. So is a slot that a commit gives up because its step did not end in time. A slot of the
// GPU pool is held for such steps by the slot table.
//
// A worker that stages writes only its session's own region. A late reservation of such a worker
// keeps its slot in that region alone, and all its reservations end with the session.
//
// Executor thread only. To reserve, to take out and to expire costs what DeadlineSlots says;
// ReleaseAll() and EndSession() look at each reservation.
#ifndef KVTIER_AGENT_SESSIONS_RESERVATIONS_H_
#define KVTIER_AGENT_SESSIONS_RESERVATIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/disk/disk_promises.h"
#include "agent/gpu/node_gpus.h"
#include "agent/limits.h"
#include "agent/sessions/deadline_slots.h"
#include "agent/sessions/sessions.h"
#include "agent/sessions/staging.h"
#include "agent/tenant_shares.h"
#include "core/block_proof.h"
#include "core/reuse_hint.h"
#include "core/tier.h"
#include "tier_gpu/gpu_pool.h"
#include "tier_host/host_tier.h"

namespace kvtier {

enum class ReservationId : uint64_t {};

// PendingBlock is a block that is being put. One of `host` and `gpu` is set; neither is, if the
// block is staged and late.
struct PendingBlock {
  BlockMeta meta;       // Description of the block, without its sum unless `summed`.
  bool summed = false;  // Whether the worker took the sum; the agent trusts it unless `staged`.
  DomainId domain{};    // Domain that the block is for.
  // Member that puts it, as BlockRun::member.
  std::optional<DomainId> member{};
  ReuseHint hint{};  // Hint of the request that puts it.
  HostSlot host;
  // Staging slot that the worker writes and the agent copies into `host`; empty: the worker writes
  // `host`.
  StagedSlot staged;
  GpuTier* on = nullptr;  // GPU that `gpu` is a slot of.
  GpuSlot gpu;
  GpuHold writer;  // The worker's own hold on `gpu`, kept until it has written there.
  // Room for the promise in host memory, if the disks would be promised the block; empty when the
  // block is late.
  DiskQueueRoom room;

  DomainId payer() const { return member.value_or(domain); }
};

class ReservationTable {
 public:
  // Makes an empty table for `domains` tenants. `gpus`, which is not owned, knows the steps of
  // workers. A domain with `max_late_bytes` of late slots in host memory gets no more slots to
  // write.
  ReservationTable(NodeGpus* gpus, uint64_t max_late_bytes, size_t domains)
      : gpus_(gpus), max_late_bytes_(domains, max_late_bytes), shares_(kMaxReservations, domains) {}
  // Adds a domain with that bound of late bytes: TenantShares::AddDomain().
  void AddDomain(uint64_t max_late_bytes) {
    max_late_bytes_.push_back(max_late_bytes);
    shares_.AddDomain();
  }
  // TenantShares::DropDomain().
  void DropDomain(DomainId domain) { shares_.DropDomain(domain); }
  // Returns whether some session is putting this block now.
  bool IsPending(const BlockKey& key) const { return pending_keys_.contains(key); }
  // Notes the engine's hint for each pending block of `keys`, for its commit.
  void Advise(std::span<const BlockKey> keys, const ReuseHint& hint);
  // Returns the latest hint that Advise() noted for the block; nullopt: there is none.
  std::optional<ReuseHint> AdviceFor(const BlockKey& key) const;
  // REQUIRES: the key is not pending. Errors: kResourceExhausted at
  // kMaxReservationsPerSession, and at the tenant's share of kMaxReservations.
  absl::StatusOr<ReservationId> Add(SessionId session, PendingBlock block, absl::Time deadline);
  // Takes the block out for committing; its key stays pending until Finish().
  // nullopt: the reservation is unknown, late or another session's, or it awaits a step.
  std::optional<PendingBlock> Take(SessionId session, ReservationId id);
  void Finish(const BlockKey& key);
  // Returns the block, which stays in the table; nullptr where Take() returns nullopt. Valid until
  // the next change.
  PendingBlock* Find(SessionId session, ReservationId id);
  // Does what Take() and Finish() do for a block that Find() returns and that was committed from
  // where it was.
  void End(ReservationId id);
  // Notes the sum of the slot's bytes that the worker took. Ignores ids for which Take() returns
  // nullopt, and slots of the GPU pool, whose bytes are summed after their copy to host memory.
  void NoteSum(SessionId session, ReservationId id, const PayloadSum& sum);
  // Notes that a commit awaits the step that writes the block. After this call only TakeAwaited()
  // or GiveUpAwaited() ends the reservation; the commit calls one of them by a deadline of its own.
  // Returns false where Take() returns nullopt.
  bool Await(SessionId session, ReservationId id);
  // Takes a block as Take() does, when the step has ended. REQUIRES of both: it awaits a step.
  PendingBlock TakeAwaited(ReservationId id);
  // Gives up a reservation whose step did not end in time, or whose worker died in it.
  void GiveUpAwaited(ReservationId id);
  // Returns the keys of the blocks of those of `ids` that the session may commit.
  std::vector<BlockKey> KeysOf(SessionId session, std::span<const ReservationId> ids);
  // Gives slots back. Ignores ids that are unknown, another session's or awaiting a step.
  void Release(SessionId session, std::span<const ReservationId> ids);
  // Gives back slots that a commit names as never written; counts them, and returns how many.
  size_t GiveBackUnwritten(SessionId session, std::span<const ReservationId> ids);
  // Gives back all slots of the session, except those that steps may still write. Called when its
  // worker writes no others any more.
  void ReleaseAll(SessionId session);
  // Ends a session whose worker may still run: its staged reservations end, and the others become
  // late, except those that await a step. Returns how many reservations it still has.
  size_t EndSession(SessionId session);
  // Ends the given back reservations whose steps have ended.
  void Sweep();
  // Makes the reservations late whose deadline is past, `limit` at most; returns how many.
  size_t Expire(absl::Time now, size_t limit = kEndedPerSweep);
  const TenantShares& shares() const { return shares_; }  // Shares of kMaxReservations.
  size_t size() const { return reserved_.size(); }        // Late ones included.
  uint64_t late_bytes(Tier tier) const;                   // kHost or kGpu.
  uint64_t unwritten_blocks(Tier tier) const {            // kHost or kGpu; so far.
    return tier == Tier::kGpu ? unwritten_gpu_blocks_ : unwritten_host_blocks_;
  }
  // Returns whether the domain's late slots in host memory take as many bytes as they may.
  bool TooMuchIsLate(DomainId domain) const;
  void Audit() const;

 private:
  struct Reserved {
    SessionId session{};
    PendingBlock block;
    // Whether it is late. A reservation that is late or awaits a step has no deadline any more.
    bool late = false;
    bool awaits_step = false;
    // Steps that may still write the slot after it was given back. When set, the reservation is one
    // of `given_back_`.
    std::optional<BegunSteps> written_by{};
  };
  // Returns the reservation; nullptr where Find() returns nullptr.
  Reserved* FindOpen(SessionId session, ReservationId id);
  // Returns the reservation. REQUIRES: it awaits a step.
  Reserved* FindAwaited(ReservationId id);
  // Ends the reservation and returns its block, whose key stays pending.
  PendingBlock TakeOut(ReservationId id, Reserved* reserved);
  void Erase(ReservationId id, const Reserved& reserved);
  // Calls `visit` with each reservation of the session; `visit` may end that one.
  void ForEachOf(SessionId session, absl::FunctionRef<void(ReservationId, Reserved*)> visit);
  // Ends the reservation, or makes it late until `steps` of its session have ended.
  void GiveBack(ReservationId id, Reserved* reserved, const BegunSteps& steps);
  // REQUIRES: it is not late.
  void MakeLate(ReservationId id, Reserved* reserved);
  // Returns the counter of the block's bytes while it is late.
  uint64_t& LateBytesOf(const PendingBlock& block);

  NodeGpus* const gpus_;
  std::vector<uint64_t> max_late_bytes_;  // Maximum of late bytes, by domain.
  TenantShares shares_;
  DeadlineSlots<ReservationId, Reserved> reserved_;
  std::vector<ReservationId> given_back_;  // Late ones that wait for steps; oldest first.
  absl::flat_hash_set<BlockKey> pending_keys_;
  absl::flat_hash_map<BlockKey, ReuseHint> advice_;  // Latest hint of each pending key with one.
  absl::flat_hash_map<SessionId, size_t> counts_;
  absl::flat_hash_map<DomainId, uint64_t> late_host_bytes_;
  uint64_t late_gpu_bytes_ = 0;
  uint64_t unwritten_host_blocks_ = 0;
  uint64_t unwritten_gpu_blocks_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SESSIONS_RESERVATIONS_H_
