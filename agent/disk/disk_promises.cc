#include "agent/disk/disk_promises.h"

#include <algorithm>
#include <vector>

#include "agent/limits.h"
#include "core/check.h"

namespace kvtier {

DiskQueueRoom::DiskQueueRoom(DiskQueueRoom&& other) noexcept
    : promises_(other.promises_),
      domain_(other.domain_),
      bytes_(std::exchange(other.bytes_, 0)),
      blocks_(std::exchange(other.blocks_, 0)) {}

DiskQueueRoom& DiskQueueRoom::operator=(DiskQueueRoom&& other) noexcept {
  if (this == &other) return *this;
  Release();
  promises_ = other.promises_;
  domain_ = other.domain_;
  bytes_ = std::exchange(other.bytes_, 0);
  blocks_ = std::exchange(other.blocks_, 0);
  return *this;
}

DiskQueueRoom DiskQueueRoom::SplitOne(uint64_t slot_bytes) {
  if (blocks_ == 0 || bytes_ < slot_bytes) return {};
  --blocks_;
  bytes_ -= slot_bytes;
  DiskQueueRoom one(promises_, domain_, slot_bytes, 1);
  // The last block gives back the bytes that shorter blocks left over.
  const uint64_t rest = blocks_ == 0 ? std::exchange(bytes_, 0) : 0;
  if (rest > 0) promises_->GiveBack(domain_, rest, 0);
  return one;
}

void DiskQueueRoom::Release() {
  const size_t blocks = std::exchange(blocks_, 0);
  const uint64_t bytes = std::exchange(bytes_, 0);
  if (blocks > 0) promises_->GiveBack(domain_, bytes, blocks);
}

// Waiter is a put in line. It lives in the frame of the put's task, and leaves the line when it is
// destroyed.
struct DiskPromises::Waiter {
  Waiter(DiskPromises* of, const Put& put) : of(of), put(put), ended(of->executor_) {
    Domain& domain = of->DomainOf(put.domain);
    uint64_t round = domain.round;
    for (const auto& [turn, other] : domain.line) {
      if (other->put.session == put.session) round = std::max(round, turn.first + 1);
    }
    turn = {round, of->next_ticket_++};
    domain.line.emplace(turn, this);
    of->waiting_.emplace(turn.second, this);
    ++of->waiting_by_session_[put.session];
  }
  ~Waiter() { Leave(); }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  bool IsFirst() const { return in_line && of->DomainOf(put.domain).line.begin()->second == this; }
  // REQUIRES: it is in line.
  void Unlink() {
    in_line = false;
    of->DomainOf(put.domain).line.erase(turn);
    of->waiting_.erase(turn.second);
    const auto count = of->waiting_by_session_.find(put.session);
    if (--count->second == 0) of->waiting_by_session_.erase(count);
    ended.Set();
  }
  // Leaves the line, and gives room to the puts that are then first.
  void Leave() {
    if (!in_line) return;
    Unlink();
    of->Serve(put.domain);
  }

  DiskPromises* const of;
  const Put put;
  Event ended;
  Turn turn;
  DiskQueueRoom room;
  bool in_line = true;
};

DiskPromises::DiskPromises(Executor* executor, Waits* waits, const HostTier& host,
                           OffloadStats* stats)
    : executor_(executor), waits_(waits), stats_(stats) {
  for (size_t i = 0; i < host.domain_count(); ++i) {
    AddDomain(host.slots(static_cast<DomainId>(i)).capacity_bytes());
  }
}

void DiskPromises::AddDomain(uint64_t bytes) {
  domains_.emplace_back().max_bytes = bytes / kPromisedPart;
  Divide();
}

void DiskPromises::DropDomain(DomainId domain) {
  DomainOf(domain).dropped = true;
  Divide();
}

void DiskPromises::Divide() {
  const auto dropped = [](const Domain& domain) { return domain.dropped; };
  const auto gone = static_cast<size_t>(std::ranges::count_if(domains_, dropped));
  const size_t parts = std::max<size_t>(1, domains_.size() - gone);
  for (Domain& domain : domains_) {
    domain.max_blocks = domain.dropped ? 0 : kMaxOffloadQueued / parts;
  }
  LookForExcess();
  // Puts may wait for room that their domain's part has now.
  for (size_t i = 0; i < domains_.size(); ++i) Serve(static_cast<DomainId>(i));
}

void DiskPromises::LookForExcess() {
  some_have_more_ = std::ranges::any_of(domains_, [](const Domain& domain) {
    return domain.blocks > std::max<size_t>(1, domain.max_blocks);
  });
}

size_t DiskPromises::Fitting(const Domain& domain, uint64_t slot_bytes) const {
  const size_t left = kMaxOffloadQueued - std::min(kMaxOffloadQueued, blocks_);
  if (domain.blocks == 0) return std::min(Most(domain, slot_bytes), std::max<size_t>(1, left));
  const uint64_t bytes = domain.max_bytes - std::min(domain.max_bytes, domain.bytes);
  const size_t blocks = domain.max_blocks - std::min(domain.max_blocks, domain.blocks);
  return std::min({static_cast<size_t>(bytes / slot_bytes), blocks, left});
}

size_t DiskPromises::Most(const Domain& domain, uint64_t slot_bytes) {
  return std::max<size_t>(1, std::min<size_t>(domain.max_bytes / slot_bytes, domain.max_blocks));
}

DiskQueueRoom DiskPromises::Grant(DomainId id, uint64_t slot_bytes, size_t blocks) {
  Domain& domain = DomainOf(id);
  domain.bytes += blocks * slot_bytes;
  domain.blocks += blocks;
  blocks_ += blocks;
  return {this, id, blocks * slot_bytes, blocks};
}

void DiskPromises::GiveBack(DomainId id, uint64_t bytes, size_t blocks) {
  Domain& domain = DomainOf(id);
  KVT_CHECK(domain.bytes >= bytes && domain.blocks >= blocks);
  domain.bytes -= bytes;
  domain.blocks -= blocks;
  blocks_ -= blocks;
  Serve(id);
  if (!some_have_more_) return;
  // Others may wait for the room that one gave back.
  for (size_t other = 0; other < domains_.size(); ++other) Serve(static_cast<DomainId>(other));
  LookForExcess();
}

void DiskPromises::Serve(DomainId id) {
  Domain& domain = DomainOf(id);
  while (!domain.line.empty()) {
    Waiter* const first = domain.line.begin()->second;
    const size_t wanted = std::min(first->put.blocks, Most(domain, first->put.slot_bytes));
    if (Fitting(domain, first->put.slot_bytes) < wanted) return;
    first->room = Grant(id, first->put.slot_bytes, wanted);
    domain.round = first->turn.first;
    first->Unlink();
  }
}

DiskQueueRoom DiskPromises::Take(DomainId id, uint64_t slot_bytes, size_t blocks) {
  const Domain& domain = DomainOf(id);
  if (!domain.line.empty()) return {};
  return Grant(id, slot_bytes, std::min(blocks, Fitting(domain, slot_bytes)));
}

Task<DiskQueueRoom> DiskPromises::Await(Put put, absl::Time deadline) {
  Domain& domain = DomainOf(put.domain);
  const size_t wanted = std::min(put.blocks, Most(domain, put.slot_bytes));
  const bool fits = domain.line.empty() && Fitting(domain, put.slot_bytes) >= wanted;
  const auto waits = waiting_by_session_.find(put.session);
  const bool may_wait =
      !waits_->ended() && deadline > executor_->Now() &&
      (waits == waiting_by_session_.end() || waits->second < kMaxPutsWaitingPerSession);
  if (fits || !may_wait) co_return Take(put.domain, put.slot_bytes, put.blocks);
  Waiter waiter(this, put);
  Serve(put.domain);  // The session's turn may come before those of all puts in line.
  if (!waiter.ended.is_set()) ++stats_->waited;
  co_await waits_->Until(&waiter.ended, deadline);
  if (waiter.IsFirst()) {
    const size_t fitting = Fitting(domain, put.slot_bytes);
    waiter.room = Grant(put.domain, put.slot_bytes, std::min(put.blocks, fitting));
  }
  co_return std::move(waiter.room);
}

void DiskPromises::EndSession(SessionId session) {
  if (!waiting_by_session_.contains(session)) return;
  std::vector<Waiter*> its;
  for (const auto& [ticket, waiter] : waiting_) {
    if (waiter->put.session == session) its.push_back(waiter);
  }
  for (Waiter* const waiter : its) waiter->Leave();
}

void DiskPromises::EndWaits() {
  while (!waiting_.empty()) waiting_.begin()->second->Leave();
}

void DiskPromises::SetCapacity(DomainId id, uint64_t bytes) {
  Domain& domain = DomainOf(id);
  domain.max_bytes = bytes / kPromisedPart;
  domain.bytes_at_change = domain.bytes;
  Serve(id);
}

void DiskPromises::Refused(size_t blocks) {
  if (blocks == 0) return;
  stats_->declined_behind += blocks;
  last_refused_ = executor_->Now();
}

bool DiskPromises::behind() const {
  return !waiting_.empty() || executor_->Now() - last_refused_ < kBehindShown;
}

uint64_t DiskPromises::bytes() const {
  uint64_t bytes = 0;
  for (const Domain& domain : domains_) bytes += domain.bytes;
  return bytes;
}

void DiskPromises::Audit() const {
  size_t in_line = 0;
  size_t blocks = 0;
  for (const Domain& domain : domains_) {
    KVT_CHECK(domain.bytes <= std::max(domain.max_bytes, domain.bytes_at_change) ||
              domain.blocks == 1);
    KVT_CHECK((domain.bytes == 0) == (domain.blocks == 0));
    KVT_CHECK(some_have_more_ || domain.blocks <= std::max<size_t>(1, domain.max_blocks));
    blocks += domain.blocks;
    in_line += domain.line.size();
    if (domain.line.empty()) continue;
    const Put& first = domain.line.begin()->second->put;
    const size_t wanted = std::min(first.blocks, Most(domain, first.slot_bytes));
    KVT_CHECK(Fitting(domain, first.slot_bytes) < wanted);
  }
  KVT_CHECK(in_line == waiting_.size() && blocks == blocks_);
}

}  // namespace kvtier
