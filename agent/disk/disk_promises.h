// DiskPromises is the room in host memory for blocks that are promised to the disks. Such a block
// is not evicted before it is written. So a put takes room here for the blocks that it reserves,
// and the blocks keep the room until they are written, or until it is known that they will not be.
// At most half of a domain's host memory is promised (kPromisedPart), or one block, so that loads
// and fetches never starve. Of kMaxOffloadQueued blocks each domain has an equal part. A new domain
// makes the parts of the others smaller, so that one of them may then have more than its part.
// Until that domain has given the excess back, a put gets no more than is left of
// kMaxOffloadQueued, or one block.
//
// A put that finds too little room may wait, within its deadline, for room for all its blocks, or
// for as many as may be promised at all. It gets all of that room at one time. Sessions take turns,
// and while a put waits no later put takes room of its domain.
//
// Executor thread only. REQUIRES: outlives its room, and the tasks that wait. Invariants, checked
// by Audit(): a domain's bytes are those of its room, and within its part (or were so while its
// part was larger); its blocks are, too, once no domain has more than its part; the put that is
// first in line does not fit.
#ifndef KVTIER_AGENT_DISK_DISK_PROMISES_H_
#define KVTIER_AGENT_DISK_DISK_PROMISES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "agent/agent_stats.h"
#include "agent/block_run.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/waits.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class DiskPromises;

// DiskQueueRoom holds room in the queue of the disks for some blocks of one domain, counted in
// blocks and in bytes of host memory. Move-only; the destructor gives the room back.
class DiskQueueRoom {
 public:
  DiskQueueRoom() = default;
  DiskQueueRoom(DiskQueueRoom&& other) noexcept;
  DiskQueueRoom& operator=(DiskQueueRoom&& other) noexcept;
  ~DiskQueueRoom() { Release(); }
  explicit operator bool() const { return blocks_ > 0; }
  size_t blocks() const { return blocks_; }
  // Moves the room of one block, `slot_bytes`, out of this object and returns it. Returns empty
  // room if this object has fewer bytes or has room for no block.
  DiskQueueRoom SplitOne(uint64_t slot_bytes);
  // Gives all of the room back.
  void Release();

 private:
  friend class DiskPromises;
  DiskQueueRoom(DiskPromises* promises, DomainId domain, uint64_t bytes, size_t blocks)
      : promises_(promises), domain_(domain), bytes_(bytes), blocks_(blocks) {}
  DiskPromises* promises_ = nullptr;  // Table of the promise, not owned; null in empty room.
  DomainId domain_{};
  uint64_t bytes_ = 0;  // Bytes of all its blocks.
  size_t blocks_ = 0;
};

class DiskPromises {
 public:
  // The room that a put asks for.
  struct Put {
    SessionId session{};
    DomainId domain{};
    uint64_t slot_bytes = 0;  // Mean bytes of the blocks' slots; no less than the first slot's.
    size_t blocks = 0;
  };
  // Owns none of its arguments.
  DiskPromises(Executor* executor, Waits* waits, const HostTier& host, OffloadStats* stats);

  // Adds a domain with `bytes` of host memory.
  void AddDomain(uint64_t bytes);
  // Gives the domain's part to the others. The domain's tenant is gone; room that its blocks still
  // have comes back as they release it.
  void DropDomain(DomainId domain);
  // Takes room for `blocks` or for as many as fit now; for none while a put of the domain
  // waits.
  DiskQueueRoom Take(DomainId domain, uint64_t slot_bytes, size_t blocks);
  // Waits for room for all blocks, or for as many as may be promised at all. At `deadline` the
  // first put in line takes what fits, and any other put gets nothing. Calls Take() at once if
  // kMaxPutsWaitingPerSession puts of the session wait. REQUIRES: `blocks` is not 0.
  Task<DiskQueueRoom> Await(Put put, absl::Time deadline);
  // Ends the waits of the session's puts. Called when the session has ended.
  void EndSession(SessionId session);
  // Ends all waits. Called when no disk is in service.
  void EndWaits();

  // Notes that a domain has `bytes` of host memory now. Takes back nothing of what is promised
  // beyond its new part.
  void SetCapacity(DomainId domain, uint64_t bytes);
  // Counts blocks that were refused room.
  void Refused(size_t blocks);
  // Returns whether puts wait for room now, or blocks were refused it within kBehindShown.
  bool behind() const;
  size_t waiting() const { return waiting_.size(); }
  uint64_t bytes() const;
  void Audit() const;

 private:
  friend class DiskQueueRoom;
  struct Waiter;
  // Place in a domain's line: round, then ticket. A session has one put in each round.
  using Turn = std::pair<uint64_t, uint64_t>;
  struct Domain {
    bool dropped = false;
    uint64_t max_bytes = 0;
    uint64_t bytes_at_change = 0;  // Bytes when `max_bytes` was changed last.
    size_t max_blocks = 0;
    uint64_t bytes = 0;
    size_t blocks = 0;
    uint64_t round = 0;  // Round of the last put whose turn it was.
    std::map<Turn, Waiter*> line;
  };
  Domain& DomainOf(DomainId domain) { return domains_.at(static_cast<size_t>(domain)); }
  // Return how many blocks of a size fit now (Fitting), and how many fit into an empty domain
  // (Most).
  size_t Fitting(const Domain& domain, uint64_t slot_bytes) const;
  static size_t Most(const Domain& domain, uint64_t slot_bytes);
  DiskQueueRoom Grant(DomainId id, uint64_t slot_bytes, size_t blocks);
  void GiveBack(DomainId id, uint64_t bytes, size_t blocks);
  // Gives room to the first in line, and to the next, as far as they fit.
  void Serve(DomainId id);
  // Gives each domain that was not dropped its part of kMaxOffloadQueued.
  void Divide();
  // Notes whether a domain has more blocks than its part. O(domains).
  void LookForExcess();

  Executor* const executor_;     // Not owned.
  Waits* const waits_;           // Not owned.
  OffloadStats* const stats_;    // Not owned.
  std::deque<Domain> domains_;   // Indexed by id. References to a domain stay valid.
  size_t blocks_ = 0;            // Blocks of all domains.
  bool some_have_more_ = false;  // A domain may have more blocks than its part.
  uint64_t next_ticket_ = 1;
  std::map<uint64_t, Waiter*> waiting_;  // Puts in line, by ticket.
  absl::flat_hash_map<SessionId, size_t> waiting_by_session_;
  absl::Time last_refused_ = absl::InfinitePast();
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_DISK_DISK_PROMISES_H_
