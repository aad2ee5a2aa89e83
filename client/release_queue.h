// ReleaseQueue gathers what workers give back, so that a destructor costs a push and
// one RPC carries many. It sends nothing itself.
#ifndef KVTIER_CLIENT_RELEASE_QUEUE_H_
#define KVTIER_CLIENT_RELEASE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/ticket.h"

namespace kvtier {

// Thread-safe. One for each session, because a new agent numbers leases from 1 again:
// an old id sent to it would end somebody's live lease.
class ReleaseQueue {
 public:
  // As many as a session can hold; beyond it leases run to their deadline.
  static constexpr size_t kMaxQueued = size_t{1} << 17;
  static constexpr size_t kMaxBatch = 8192;  // Ids of one RPC.

  // kDamaged: leases whose bytes were not what their sums say.
  enum class Kind : uint8_t { kLease, kReservation, kSlot, kDamaged };
  struct Batch {
    std::vector<uint64_t> lease_ids;
    std::vector<uint64_t> reservation_ids;
    std::vector<uint64_t> slots;
    std::vector<uint64_t> damaged_lease_ids;
    std::vector<TicketId> tickets;
    size_t size() const {
      return lease_ids.size() + reservation_ids.size() + slots.size() + damaged_lease_ids.size() +
             tickets.size();
    }
    bool empty() const { return size() == 0; }
  };

  struct Added {
    size_t dropped = 0;      // Found no room.
    bool was_empty = false;  // Nobody knows yet that there is something to send.
  };
  Added Add(Kind kind, std::span<const uint64_t> ids) ABSL_LOCKS_EXCLUDED(mu_);
  Added AddTicket(const TicketId& ticket) ABSL_LOCKS_EXCLUDED(mu_);
  // Takes the newest ids, kMaxBatch of each kind at most.
  Batch Take() ABSL_LOCKS_EXCLUDED(mu_);
  bool empty() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable absl::Mutex mu_;
  Batch queued_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_RELEASE_QUEUE_H_
