#include "client/release_queue.h"

#include <algorithm>
#include <utility>

namespace kvtier {
namespace {

template <typename Id>
std::vector<Id> TakeTail(std::vector<Id>* ids, size_t limit) {
  const auto from = ids->end() - static_cast<ptrdiff_t>(std::min(ids->size(), limit));
  std::vector<Id> taken(from, ids->end());
  ids->erase(from, ids->end());
  return taken;
}

std::vector<uint64_t>& ListOf(ReleaseQueue::Kind kind, ReleaseQueue::Batch* batch) {
  switch (kind) {
    case ReleaseQueue::Kind::kLease:
      return batch->lease_ids;
    case ReleaseQueue::Kind::kReservation:
      return batch->reservation_ids;
    case ReleaseQueue::Kind::kSlot:
      return batch->slots;
    case ReleaseQueue::Kind::kSpace:
      return batch->space_ids;
    case ReleaseQueue::Kind::kSwap:
      return batch->swap_ids;
    case ReleaseQueue::Kind::kDamaged:
      break;
  }
  return batch->damaged_lease_ids;
}

}  // namespace

ReleaseQueue::Added ReleaseQueue::Add(Kind kind, std::span<const uint64_t> ids, absl::Time now) {
  absl::MutexLock lock(&mu_);
  const size_t fitting = std::min(ids.size(), kMaxQueued - std::min(queued_.size(), kMaxQueued));
  if (kind != Kind::kLease) {
    rest_due_ = now;
  } else if (queued_.lease_ids.empty()) {
    leases_due_ = now + kMaxLeaseDelay;
  }
  std::vector<uint64_t>& list = ListOf(kind, &queued_);
  list.insert(list.end(), ids.begin(), ids.begin() + static_cast<ptrdiff_t>(fitting));
  if (kind == Kind::kLease) leases_came_ = true;
  return {.dropped = ids.size() - fitting, .sooner = IsSooner(now)};
}

ReleaseQueue::Added ReleaseQueue::AddTicket(const TicketId& ticket, absl::Time now) {
  absl::MutexLock lock(&mu_);
  if (queued_.size() >= kMaxQueued) return {.dropped = 1};
  queued_.tickets.push_back(ticket);
  rest_due_ = now;
  return {.sooner = IsSooner(now)};
}

absl::Time ReleaseQueue::DueNow() const {
  if (queued_.size() > queued_.lease_ids.size()) return rest_due_;
  return queued_.empty() ? absl::InfiniteFuture() : leases_due_;
}

bool ReleaseQueue::IsSooner(absl::Time now) {
  const absl::Time due = DueNow();
  if (due >= said_ && said_ >= now) return false;
  said_ = due;
  return true;
}

bool ReleaseQueue::IsDue(absl::Time now) const {
  absl::MutexLock lock(&mu_);
  return DueNow() <= now;
}

absl::Time ReleaseQueue::NextLook(absl::Time now) {
  absl::MutexLock lock(&mu_);
  said_ = DueNow();
  if (std::exchange(leases_came_, false)) said_ = std::min(said_, now + kMaxLeaseDelay);
  return said_;
}

ReleaseQueue::Batch ReleaseQueue::Take() {
  absl::MutexLock lock(&mu_);
  return {.lease_ids = TakeTail(&queued_.lease_ids, kMaxBatch),
          .reservation_ids = TakeTail(&queued_.reservation_ids, kMaxBatch),
          .slots = TakeTail(&queued_.slots, kMaxBatch),
          .damaged_lease_ids = TakeTail(&queued_.damaged_lease_ids, kMaxBatch),
          .space_ids = TakeTail(&queued_.space_ids, kMaxBatch),
          .swap_ids = TakeTail(&queued_.swap_ids, kMaxBatch),
          .tickets = TakeTail(&queued_.tickets, kMaxBatch)};
}

std::vector<uint64_t> ReleaseQueue::TakeLeases() {
  absl::MutexLock lock(&mu_);
  return TakeTail(&queued_.lease_ids, kMaxBatch);
}

}  // namespace kvtier
