// ReleaseQueue gathers the ids of leases and reservations that a worker gives back, so that a
// destructor costs a push and one RPC carries many ids. It sends nothing itself, and says when to
// send: leases wait a moment for a call that takes them along; all other ids are due at once.
#ifndef KVTIER_CLIENT_RELEASE_QUEUE_H_
#define KVTIER_CLIENT_RELEASE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/ticket.h"

namespace kvtier {

// Thread-safe. One for each session, because a new agent numbers leases from 1 again: an old id
// sent to it would end another worker's live lease.
class ReleaseQueue {
 public:
  // Maximum number of ids that wait, as many as a session can hold; further leases run to their
  // deadline.
  static constexpr size_t kMaxQueued = size_t{1} << 17;
  static constexpr size_t kMaxBatch = 8192;  // Maximum number of ids of a kind in one RPC.
  // Maximum time that leases wait for the next call. Engines onboard and release in turn, so one
  // call that does both saves half of the calls.
  static constexpr absl::Duration kMaxLeaseDelay = absl::Milliseconds(1);

  // kDamaged: leases whose bytes were not what their sums say.
  enum class Kind : uint8_t { kLease, kReservation, kSlot, kDamaged, kSpace, kSwap };
  struct Batch {
    std::vector<uint64_t> lease_ids;
    std::vector<uint64_t> reservation_ids;
    std::vector<uint64_t> slots;
    std::vector<uint64_t> damaged_lease_ids;
    std::vector<uint64_t> space_ids;
    std::vector<uint64_t> swap_ids;
    std::vector<TicketId> tickets;
    size_t size() const {
      return lease_ids.size() + reservation_ids.size() + slots.size() + damaged_lease_ids.size() +
             space_ids.size() + swap_ids.size() + tickets.size();
    }
    bool empty() const { return size() == 0; }
  };

  struct Added {
    size_t dropped = 0;   // Ids that found no room.
    bool sooner = false;  // Whether something is due before the time that NextLook() last returned.
  };
  Added Add(Kind kind, std::span<const uint64_t> ids, absl::Time now) ABSL_LOCKS_EXCLUDED(mu_);
  Added AddTicket(const TicketId& ticket, absl::Time now) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns whether Take() is to be called now.
  bool IsDue(absl::Time now) const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns when to look at the queue again; InfiniteFuture: not before Add() says so. Where calls
  // take leases along, the queue is often empty, but more leases come soon: a look once in each
  // kMaxLeaseDelay costs less than a wake-up for each of them.
  absl::Time NextLook(absl::Time now) ABSL_LOCKS_EXCLUDED(mu_);
  // Takes the newest ids, kMaxBatch of each kind at most. What is left is due still.
  Batch Take() ABSL_LOCKS_EXCLUDED(mu_);
  // Takes the newest leases, kMaxBatch at most.
  std::vector<uint64_t> TakeLeases() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Time DueNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns whether something is due before what NextLook() has said, and notes that it is.
  bool IsSooner(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  Batch queued_ ABSL_GUARDED_BY(mu_);
  absl::Time leases_due_ ABSL_GUARDED_BY(mu_);     // Time at which the waiting leases are due.
  absl::Time rest_due_ ABSL_GUARDED_BY(mu_);       // Time at which everything else is due.
  bool leases_came_ ABSL_GUARDED_BY(mu_) = false;  // Whether some came since NextLook().
  // Time of the latest NextLook()'s answer. Its caller sleeps until then, and is told only of what
  // is due before. Once it is past, the caller may sleep for another reason, and is told again.
  absl::Time said_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_RELEASE_QUEUE_H_
