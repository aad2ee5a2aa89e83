#include "agent/sessions/reservations.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/check.h"
#include "core/space.h"

namespace kvtier {
namespace {

// Returns the bytes of memory that is not the worker's own and that it may write.
uint64_t BytesOf(const PendingBlock& block) {
  if (block.staged) return 0;
  return block.gpu ? SlotBytes(block.meta.length) : block.host.slot_bytes();
}

}  // namespace

absl::StatusOr<ReservationId> ReservationTable::Add(SessionId session, PendingBlock block,
                                                    absl::Time deadline) {
  const DomainId domain = block.domain;
  if (!shares_.MayTake(domain)) return shares_.Refusal("reservations", domain);
  size_t& count = counts_[session];
  if (count >= kMaxReservationsPerSession) {
    return absl::ResourceExhaustedError(
        absl::StrCat("reservations: the session holds all of its ", kMaxReservationsPerSession));
  }
  ++count;
  shares_.Take(domain);
  KVT_CHECK(pending_keys_.insert(block.meta.key).second);
  const ReservationId id{next_id_++};
  // Most are the last: they all last equally long.
  auto next = open_.end();
  while (next != open_.begin() && std::prev(next)->deadline > deadline) --next;
  const auto place = open_.insert(
      next,
      Reserved{.id = id, .session = session, .block = std::move(block), .deadline = deadline});
  by_id_.emplace(id, place);
  return id;
}

void ReservationTable::Finish(const BlockKey& key) {
  pending_keys_.erase(key);
  if (!advice_.empty()) advice_.erase(key);
}

void ReservationTable::Advise(std::span<const BlockKey> keys, const ReuseHint& hint) {
  for (const BlockKey& key : keys) {
    if (IsPending(key)) advice_[key] = hint;
  }
}

std::optional<ReuseHint> ReservationTable::AdviceFor(const BlockKey& key) const {
  const auto found = advice_.find(key);
  if (found == advice_.end()) return std::nullopt;
  return found->second;
}

void ReservationTable::Erase(Reserved* reserved) {
  const auto count = counts_.find(reserved->session);
  if (--count->second == 0) counts_.erase(count);
  if (reserved->late) LateBytesOf(reserved->block) -= BytesOf(reserved->block);
  shares_.GiveBack(reserved->block.domain);
  const auto found = by_id_.find(reserved->id);
  Reservations& list = reserved->late || reserved->awaits_step ? kept_ : open_;
  list.erase(found->second);
  by_id_.erase(found);
}

ReservationTable::Reserved* ReservationTable::FindOpen(SessionId session, ReservationId id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  Reserved& reserved = *found->second;
  const bool open = reserved.session == session && !reserved.late && !reserved.awaits_step;
  return open ? &reserved : nullptr;
}

ReservationTable::Reserved* ReservationTable::FindAwaited(ReservationId id) {
  const auto found = by_id_.find(id);
  KVT_CHECK(found != by_id_.end() && found->second->awaits_step);
  return &*found->second;
}

PendingBlock* ReservationTable::Find(SessionId session, ReservationId id) {
  Reserved* const reserved = FindOpen(session, id);
  return reserved == nullptr ? nullptr : &reserved->block;
}

void ReservationTable::End(ReservationId id) {
  Reserved* const reserved = &*by_id_.at(id);
  Finish(reserved->block.meta.key);
  Erase(reserved);
}

std::optional<PendingBlock> ReservationTable::Take(SessionId session, ReservationId id) {
  Reserved* const reserved = FindOpen(session, id);
  if (reserved == nullptr) return std::nullopt;
  PendingBlock block = std::move(reserved->block);
  Erase(reserved);
  return block;
}

std::vector<BlockKey> ReservationTable::KeysOf(SessionId session,
                                               std::span<const ReservationId> ids) {
  std::vector<BlockKey> keys;
  for (const ReservationId id : ids) {
    if (const PendingBlock* const block = Find(session, id)) keys.push_back(block->meta.key);
  }
  return keys;
}

void ReservationTable::NoteSum(SessionId session, ReservationId id, const PayloadSum& sum) {
  PendingBlock* const block = Find(session, id);
  if (block == nullptr || block->gpu) return;
  block->meta.sum = sum;
  block->summed = true;
}

bool ReservationTable::Await(SessionId session, ReservationId id) {
  Reserved* const reserved = FindOpen(session, id);
  if (reserved == nullptr) return false;
  Keep(reserved);
  reserved->awaits_step = true;
  return true;
}

PendingBlock ReservationTable::TakeAwaited(ReservationId id) {
  Reserved* const reserved = FindAwaited(id);
  PendingBlock block = std::move(reserved->block);
  Erase(reserved);
  return block;
}

void ReservationTable::GiveUpAwaited(ReservationId id) {
  Reserved* const reserved = FindAwaited(id);
  open_.splice(open_.begin(), kept_, by_id_.at(id));
  reserved->awaits_step = false;
  GiveBack(reserved, gpus_->StepsOf(reserved->session));
}

void ReservationTable::GiveBack(Reserved* reserved, const BegunSteps& steps) {
  if (reserved->awaits_step) return;
  if (steps.ended() || reserved->block.writer) {
    if (!reserved->late) Finish(reserved->block.meta.key);
    Erase(reserved);
    return;
  }
  if (!reserved->late) MakeLate(reserved);
  // Given back a second time, it still waits for the first time's steps.
  if (!reserved->written_by.has_value()) {
    reserved->written_by = steps;
    given_back_.push_back(reserved->id);
  }
}

void ReservationTable::Release(SessionId session, std::span<const ReservationId> ids) {
  const BegunSteps steps = gpus_->StepsOf(session);
  for (const ReservationId id : ids) {
    const auto found = by_id_.find(id);
    if (found == by_id_.end() || found->second->session != session) continue;
    GiveBack(&*found->second, steps);
  }
}

size_t ReservationTable::GiveBackUnwritten(SessionId session, std::span<const ReservationId> ids) {
  if (ids.empty()) return 0;
  size_t unwritten = 0;
  for (const ReservationId id : ids) {
    const PendingBlock* const block = Find(session, id);
    if (block == nullptr) continue;
    ++(block->gpu ? unwritten_gpu_blocks_ : unwritten_host_blocks_);
    ++unwritten;
  }
  Release(session, ids);
  return unwritten;
}

void ReservationTable::ForEachOf(SessionId session, absl::FunctionRef<void(Reserved*)> visit) {
  if (!counts_.contains(session)) return;
  for (Reservations* const list : {&kept_, &open_}) {
    for (auto next = list->begin(); next != list->end();) {
      Reserved* const reserved = &*next++;
      if (reserved->session == session) visit(reserved);
    }
  }
}

void ReservationTable::ReleaseAll(SessionId session) {
  const BegunSteps steps = gpus_->StepsOf(session);
  ForEachOf(session, [&](Reserved* reserved) { GiveBack(reserved, steps); });
}

void ReservationTable::Sweep() {
  std::erase_if(given_back_, [this](ReservationId id) {
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return true;
    if (!found->second->written_by->ended()) return false;
    Erase(&*found->second);
    return true;
  });
}

size_t ReservationTable::EndSession(SessionId session) {
  ForEachOf(session, [this](Reserved* ended) {
    if (ended->awaits_step) return;
    if (ended->block.staged) {
      if (!ended->late) Finish(ended->block.meta.key);
      Erase(ended);
    } else if (!ended->late) {
      MakeLate(ended);
    }
  });
  const auto left = counts_.find(session);
  return left == counts_.end() ? 0 : left->second;
}

size_t ReservationTable::Expire(absl::Time now) {
  size_t expired = 0;
  for (; !open_.empty() && open_.front().deadline < now; ++expired) MakeLate(&open_.front());
  return expired;
}

void ReservationTable::Keep(Reserved* reserved) {
  kept_.splice(kept_.end(), open_, by_id_.at(reserved->id));
}

void ReservationTable::MakeLate(Reserved* reserved) {
  Keep(reserved);
  reserved->late = true;
  LateBytesOf(reserved->block) += BytesOf(reserved->block);
  Finish(reserved->block.meta.key);
  reserved->block.room.Release();
  // Nobody writes there.
  if (reserved->block.staged) reserved->block.host.Release();
}

uint64_t& ReservationTable::LateBytesOf(const PendingBlock& block) {
  return block.gpu ? late_gpu_bytes_ : late_host_bytes_[block.domain];
}

uint64_t ReservationTable::late_bytes(Tier tier) const {
  if (tier == Tier::kGpu) return late_gpu_bytes_;
  uint64_t bytes = 0;
  for (const auto& [domain, late] : late_host_bytes_) bytes += late;
  return bytes;
}

bool ReservationTable::TooMuchIsLate(DomainId domain) const {
  const auto late = late_host_bytes_.find(domain);
  return late != late_host_bytes_.end() && late->second >= max_late_bytes_;
}

void ReservationTable::Audit() const {
  for (const auto& [key, hint] : advice_) KVT_CHECK(IsPending(key));
  absl::flat_hash_map<SessionId, size_t> counts;
  uint64_t late = 0;
  for (const auto& [id, place] : by_id_) {
    const Reserved& reserved = *place;
    KVT_CHECK(reserved.id == id && !(reserved.late && reserved.awaits_step));
    ++counts[reserved.session];
    const bool in_gpu = static_cast<bool>(reserved.block.gpu);
    const bool is_staged = static_cast<bool>(reserved.block.staged);
    const bool gave_up_host = reserved.late && is_staged;
    KVT_CHECK(!(is_staged && in_gpu));
    KVT_CHECK(static_cast<bool>(reserved.block.host) == !(in_gpu || gave_up_host));
    KVT_CHECK(reserved.late || pending_keys_.contains(reserved.block.meta.key));
    if (reserved.late) late += BytesOf(reserved.block);
  }
  const auto is_open = [](const Reserved& each) { return !each.late && !each.awaits_step; };
  KVT_CHECK(std::ranges::all_of(open_, is_open) && std::ranges::none_of(kept_, is_open));
  KVT_CHECK(std::ranges::is_sorted(open_, {}, &Reserved::deadline));
  KVT_CHECK(open_.size() + kept_.size() == by_id_.size());
  KVT_CHECK(late == late_bytes(Tier::kHost) + late_bytes(Tier::kGpu));
  KVT_CHECK(counts == counts_);
  shares_.Audit();
  KVT_CHECK(shares_.taken() == by_id_.size());
}

}  // namespace kvtier
