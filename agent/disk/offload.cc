#include "agent/disk/offload.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "agent/index/slot_sum.h"
#include "agent/limits.h"
#include "core/check.h"
#include "core/checksum.h"
#include "core/event.h"

namespace kvtier {

Offloader::Offloader(const Parts& parts) : parts_(parts), serving_(parts.disks->disk_count()) {
  parts_.changes->Follow(this);
  if (!at_commit()) cold_end_.emplace(parts_.index, parts_.host);
}

bool Offloader::WouldPromise(const BlockKey& key, uint64_t block_bytes) const {
  return at_commit() && MayAdmit(CandidateFor(key, block_bytes, 0));
}

bool Offloader::MayAdmit(const WriteCandidate& candidate) const {
  return parts_.index->In(Tier::kDisk, candidate.key) ||
         parts_.admission->MayWrite(candidate, parts_.executor->Now());
}

void Offloader::Committed(const BlockKey& key, DiskQueueRoom room) {
  // A worker computes what it did not get, so the disk's copy may be damaged.
  if (parts_.index->In(Tier::kDisk, key)) unproven_.insert(key);
  if (at_commit()) Offer(key, std::move(room));
}

void Offloader::Used(std::span<const HostBlock* const> run) {
  if (!at_commit()) return;
  // The parents first: a child on disk without its parent is of no use.
  for (const HostBlock* const block : run) {
    // A block that just came is not offered, because it was not hit in memory.
    if (block->hits > 0) Offer(block->meta.key, {});
  }
}

void Offloader::OnChange(const BlockChange& change) {
  const Delta& delta = change.delta;
  if (delta.tier == Tier::kGpu) return;
  if (delta.kind == Delta::Kind::kRemove) unproven_.erase(delta.key);
  if (delta.tier != Tier::kHost) return;
  if (delta.kind == Delta::Kind::kAdd) {
    parts_.admission->Entered(delta.key);
  } else if (cold_end_.has_value() && !change.was_aside &&
             !parts_.index->In(Tier::kDisk, delta.key)) {
    ++parts_.stats->evicted;
  }
  if (!cold_end_.has_value() || pumping_soon_) return;
  pumping_soon_ = true;
  parts_.scope->Spawn(PumpSoon());
}

// Calls Pump() in a later turn, because the index has not finished the change that made room
// scarce.
Task<void> Offloader::PumpSoon() {
  co_await SleepUntil(parts_.executor, parts_.executor->Now());
  pumping_soon_ = false;
  Pump();
}

void Offloader::Offer(const BlockKey& key, DiskQueueRoom room) {
  const HostBlock& block = *parts_.index->Find(key);
  if (pending_.contains(key) || IsDone(key)) return;
  // A block that is refused anyway needs no room.
  if (!room && MayAdmit(CandidateFor(key, block.meta.length, block.hits))) {
    room = parts_.promises->Take(block.slot.domain(), block.slot.slot_bytes(), 1);
    if (!room) {
      ++parts_.stats->declined_behind;
      return;
    }
  }
  std::optional<Promise> promise = Admit(key);
  if (!promise.has_value()) return;
  promise->room = std::move(room);
  Queue(*std::move(promise));
  Pump();
}

void Offloader::Queue(Promise promise) {
  const auto domain = static_cast<size_t>(promise.domain);
  const uint64_t cost = promise.candidate.record_bytes;
  queue_.Push(domain, cost, std::move(promise));
}

WriteCandidate Offloader::CandidateFor(const BlockKey& key, uint64_t length,
                                       uint32_t host_hits) const {
  return {.key = key,
          .record_bytes = DiskSet::BytesOnDisk(length),
          .host_hits = host_hits,
          .disk_has_child = parts_.disks->HasChildOf(key) || parents_of_pending_.contains(key)};
}

std::optional<DiskAdmission::Verdict> Offloader::Decide(const WriteCandidate& candidate) {
  const std::optional<DiskAdmission::Verdict> verdict =
      parts_.admission->Decide(candidate, parts_.executor->Now());
  if (!verdict.has_value()) {
    ++parts_.stats->disk_failed;  // No disk serves.
    return std::nullopt;
  }
  switch (verdict->decision) {
    case WriteDecision::kWrite:
      return verdict;
    case WriteDecision::kNotWorthIt:
      ++parts_.stats->not_worth_it;
      break;
    case WriteDecision::kOverBudget:
      ++parts_.stats->over_budget;
      break;
  }
  return std::nullopt;
}

std::optional<DiskAdmission::Verdict> Offloader::Judge(const WriteCandidate& candidate) {
  const std::optional<size_t> holder = parts_.disks->HolderOf(candidate.key);
  if (!holder.has_value()) return Decide(candidate);
  return DiskAdmission::Verdict{.disk = *holder};
}

std::optional<Offloader::Promise> Offloader::Admit(const BlockKey& key) {
  const HostBlock& block = *parts_.index->Find(key);
  const WriteCandidate candidate = CandidateFor(key, block.meta.length, block.hits);
  const std::optional<DiskAdmission::Verdict> verdict = Judge(candidate);
  if (!verdict.has_value()) return std::nullopt;
  pending_.insert(key);
  if (block.meta.parent.has_value()) ++parents_of_pending_[*block.meta.parent];
  return Promise{.meta = block.meta,
                 .candidate = candidate,
                 .verdict = *verdict,
                 .pin = *parts_.index->PinOf(key),
                 .domain = block.slot.domain()};
}

std::optional<Offloader::Promise> Offloader::TakeNext() {
  if (!queue_.empty()) return queue_.Pop();
  while (cold_end_.has_value()) {
    const std::optional<BlockKey> key = cold_end_->TakeNext();
    if (!key.has_value()) break;
    // A block that was used while it is being written counts as ready again.
    if (pending_.contains(*key) || IsDone(*key)) continue;
    std::optional<Promise> promise = Admit(*key);
    if (promise.has_value()) return promise;
  }
  return std::nullopt;
}

void Offloader::Pump() {
  if (pumping_) return;
  pumping_ = true;
  EndBroken();
  while (running_.size() < kMaxOffloadsRunning + parts_.disks->stuck().puts) {
    std::optional<Promise> promise = TakeNext();
    if (!promise.has_value()) break;
    parts_.scope->Spawn(Run(*std::move(promise)));
  }
  pumping_ = false;
}

void Offloader::EndBroken() {
  bool left = false;
  bool any = false;
  for (size_t disk = 0; disk < serving_.size(); ++disk) {
    const bool serves = parts_.disks->serves(disk);
    left = left || (serving_[disk] && !serves);
    any = any || serves;
    serving_[disk] = serves;
  }
  if (!left) return;
  // The device may still read their bytes, so their pins last as long as the calls do.
  for (Promise* const promise : running_) {
    if (!serving_[promise->verdict.disk]) promise->room.Release();
  }
  for (Promise& promise : queue_.TakeAll()) {
    if (!serving_[promise.verdict.disk]) {
      const std::optional<DiskAdmission::Verdict> verdict = Judge(promise.candidate);
      if (!verdict.has_value()) {
        End(promise);
        continue;
      }
      promise.verdict = *verdict;
    }
    Queue(std::move(promise));
  }
  if (!any) parts_.promises->EndWaits();
}

void Offloader::Forget(DomainId domain) {
  std::vector<Promise> forgotten;
  queue_.TakeOf(static_cast<size_t>(domain), &forgotten);
  for (const Promise& promise : forgotten) End(promise);
}

Task<void> Offloader::Run(Promise promise) {
  const auto place = running_.insert(running_.end(), &promise);
  co_await Write(promise);
  running_.erase(place);
  End(promise);
  const bool was_condemned = promise.pin.block().is_condemned;
  promise.pin.Release();
  promise.room.Release();
  // The block that was put in its place was not offered while this one was pending.
  const BlockKey& key = promise.meta.key;
  if (was_condemned && at_commit() && parts_.index->In(Tier::kHost, key)) Offer(key, {});
  Pump();
}

void Offloader::End(const Promise& promise) {
  const BlockKey& key = promise.meta.key;
  pending_.erase(key);
  if (promise.meta.parent.has_value()) {
    const auto pending = parents_of_pending_.find(*promise.meta.parent);
    if (--pending->second == 0) parents_of_pending_.erase(pending);
  }
  const auto awaited = awaited_.find(key);
  if (awaited == awaited_.end()) return;
  for (const std::shared_ptr<Durable>& durable : awaited->second) {
    if (--durable->left == 0) durable->ended.Set();
  }
  awaited_.erase(awaited);
}

Task<size_t> Offloader::AwaitDurable(std::vector<BlockKey> keys, absl::Time deadline) {
  const auto durable = std::make_shared<Durable>(parts_.executor);
  for (const BlockKey& key : keys) {
    if (!pending_.contains(key)) continue;
    ++durable->left;
    awaited_[key].push_back(durable);
  }
  const absl::Duration time = deadline - parts_.executor->Now();
  const absl::Time write_by = deadline - std::min(time / 8, kConfirmTime);
  if (durable->left > 0) co_await parts_.waits->Until(&durable->ended, write_by);
  // The disks confirm only now: one of them may have lost its files since it wrote its block.
  const auto confirms = std::make_shared<Durable>(parts_.executor);
  absl::flat_hash_set<size_t> holders;
  for (const BlockKey& key : keys) {
    if (const std::optional<size_t> disk = parts_.disks->HolderOf(key)) holders.insert(*disk);
  }
  confirms->left = holders.size();
  for (const size_t disk : holders) parts_.scope->Spawn(Confirm(disk, confirms));
  if (confirms->left > 0) co_await parts_.waits->Until(&confirms->ended, deadline);
  size_t on_disk = 0;
  for (const BlockKey& key : keys) {
    const std::optional<size_t> disk = parts_.disks->HolderOf(key);
    on_disk += disk.has_value() && confirms->confirmed.contains(*disk) ? 1 : 0;
  }
  co_return on_disk;
}

Task<void> Offloader::Confirm(size_t disk, std::shared_ptr<Durable> durable) {
  // gcc 12 loses the branch where co_await is in its condition.
  const absl::Status confirmed = co_await parts_.disks->Confirm(disk);
  if (confirmed.ok()) durable->confirmed.insert(disk);
  if (--durable->left == 0) durable->ended.Set();
}

Task<void> Offloader::Write(const Promise& promise) {
  const BlockMeta& meta = promise.meta;
  if (promise.pin.block().is_condemned) co_return;
  const HostSlot& from = static_cast<const HostBlock&>(promise.pin.block()).slot;
  const std::span<std::byte> slot = from.bytes();
  const std::string tenant = parts_.tenants->OfDomain(from.domain()).name;
  // Workers may write the arena: a block that changed after commit stops here.
  bool altered = false;
  // The whole slot is written, so the bytes behind the payload are zeroed.
  ByteThreads::Work verify = [&] { altered = SumSlot(slot, meta.length) != meta.sum; };
  co_await parts_.byte_threads->Run(std::move(verify));
  if (altered) {
    ++parts_.stats->altered;
    parts_.prover->Condemn(promise.pin);
    co_return;
  }
  const absl::Status written = co_await parts_.disks->Put(meta, slot, tenant);
  if (written.ok()) {
    // A damaged copy has left the set together with the disk.
    const bool was_sound = unproven_.erase(meta.key) > 0;
    if (was_sound) co_return;
    ++parts_.stats->written;
    parts_.admission->Landed(promise.candidate, promise.verdict, parts_.executor->Now());
  } else if (absl::IsResourceExhausted(written)) {
    ++parts_.stats->disk_full;
  } else if (!absl::IsAborted(written)) {  // Else its tenant is being erased: no failure.
    ++parts_.stats->disk_failed;
  }
}

void Offloader::Audit() const {
  KVT_CHECK(pending_.size() == queue_.size() + running_.size());
  for (const auto& [key, awaited] : awaited_) KVT_CHECK(pending_.contains(key));
}

}  // namespace kvtier
