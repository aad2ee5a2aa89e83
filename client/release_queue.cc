#include "client/release_queue.h"

#include <algorithm>

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
    case ReleaseQueue::Kind::kDamaged:
      break;
  }
  return batch->damaged_lease_ids;
}

}  // namespace

ReleaseQueue::Added ReleaseQueue::Add(Kind kind, std::span<const uint64_t> ids) {
  absl::MutexLock lock(&mu_);
  const size_t queued = queued_.size();
  const size_t fitting = std::min(ids.size(), kMaxQueued - std::min(queued, kMaxQueued));
  std::vector<uint64_t>& list = ListOf(kind, &queued_);
  list.insert(list.end(), ids.begin(), ids.begin() + static_cast<ptrdiff_t>(fitting));
  return {.dropped = ids.size() - fitting, .was_empty = queued == 0};
}

ReleaseQueue::Added ReleaseQueue::AddTicket(const TicketId& ticket) {
  absl::MutexLock lock(&mu_);
  const size_t queued = queued_.size();
  if (queued >= kMaxQueued) return {.dropped = 1};
  queued_.tickets.push_back(ticket);
  return {.was_empty = queued == 0};
}

ReleaseQueue::Batch ReleaseQueue::Take() {
  absl::MutexLock lock(&mu_);
  return {.lease_ids = TakeTail(&queued_.lease_ids, kMaxBatch),
          .reservation_ids = TakeTail(&queued_.reservation_ids, kMaxBatch),
          .slots = TakeTail(&queued_.slots, kMaxBatch),
          .damaged_lease_ids = TakeTail(&queued_.damaged_lease_ids, kMaxBatch),
          .tickets = TakeTail(&queued_.tickets, kMaxBatch)};
}

bool ReleaseQueue::empty() const {
  absl::MutexLock lock(&mu_);
  return queued_.empty();
}

}  // namespace kvtier
