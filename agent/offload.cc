#include "agent/offload.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/check.h"
#include "core/checksum.h"
#include "core/event.h"
#include "core/log.h"
#include "tier_disk/log/record.h"

namespace kvtier {

Offloader::Offloader(const Parts& parts) : parts_(parts) {
  if (!at_commit()) cold_end_.emplace(parts_.host);
}

void Offloader::Committed(const BlockKey& key) {
  if (at_commit()) Queue(key);
}

void Offloader::Used(std::span<const BlockKey> run) {
  // As BlockIndex::Touch() does it: from the last to the first.
  for (auto key = run.rbegin(); key != run.rend(); ++key) {
    const BlockIndex::Entry* const entry = parts_.index->Find(*key);
    if (entry == nullptr || !entry->host) continue;
    if (cold_end_.has_value()) cold_end_->Used(*entry);
  }
  if (!at_commit()) return;
  // The parents first: a child on disk without its parent is of no use.
  for (const BlockKey& key : run) {
    const BlockIndex::Entry* const entry = parts_.index->Find(key);
    // Not one that just came: it was not hit in memory.
    if (entry == nullptr || !entry->host || entry->host_hits == 0) continue;
    if (!parts_.index->In(Tier::kDisk, key)) Queue(key);
  }
}

void Offloader::OnDelta(const Delta& delta) {
  if (delta.tier != Tier::kHost) return;
  if (delta.kind == Delta::Kind::kAdd) {
    parts_.admission->Entered(delta.key);
    if (cold_end_.has_value()) cold_end_->Entered(*parts_.index->Find(delta.key));
  } else if (cold_end_.has_value()) {
    const bool unoffered = cold_end_->Left(delta.key);
    if (unoffered && !parts_.index->In(Tier::kDisk, delta.key)) ++parts_.stats->evicted;
  }
  if (!cold_end_.has_value() || pumping_soon_) return;
  pumping_soon_ = true;
  parts_.scope->Spawn(PumpSoon());
}

// Not inside the change that made room scarce: the index is in the midst of it.
Task<void> Offloader::PumpSoon() {
  co_await SleepUntil(parts_.executor, parts_.executor->Now());
  pumping_soon_ = false;
  Pump();
}

void Offloader::Queue(const BlockKey& key) {
  if (pending_.contains(key)) return;
  if (queue_.size() >= kMaxOffloadQueued) {
    ++parts_.stats->queue_full;
    return;
  }
  pending_.insert(key);
  queue_.push_back(key);
  Pump();
}

std::optional<BlockKey> Offloader::TakeNext() {
  if (!queue_.empty()) {
    const BlockKey key = queue_.front();
    queue_.pop_front();
    return key;
  }
  while (cold_end_.has_value()) {
    const std::optional<BlockKey> key = cold_end_->TakeNext();
    if (!key.has_value()) break;
    // One that was used while it is being written counts as ready again.
    if (pending_.insert(*key).second) return key;
  }
  return std::nullopt;
}

void Offloader::Pump() {
  if (pumping_) return;
  pumping_ = true;
  while (running_ < kMaxOffloadsRunning + parts_.disks->stuck().puts) {
    const std::optional<BlockKey> key = TakeNext();
    if (!key.has_value()) break;
    ++running_;
    parts_.scope->Spawn(Run(*key));
  }
  pumping_ = false;
}

Task<void> Offloader::Run(BlockKey key) {
  co_await Offer(key);
  pending_.erase(key);
  --running_;
  Pump();
}

Task<void> Offloader::Offer(BlockKey key) {
  if (parts_.index->In(Tier::kDisk, key)) co_return;
  const std::optional<Pin> pin = parts_.index->PinIn(Tier::kHost, key);
  if (!pin.has_value()) {
    ++parts_.stats->evicted;
    co_return;
  }
  const BlockIndex::Entry& entry = *parts_.index->Find(key);
  const std::span<const std::byte> slot = entry.host.bytes();
  std::optional<Admitted> admitted = Admit(entry.meta, entry.host_hits);
  if (!admitted.has_value()) co_return;
  const std::optional<BlockKey> parent = admitted->meta.parent;
  if (parent.has_value()) ++parents_of_running_[*parent];
  co_await Write(*std::move(admitted), slot);
  if (!parent.has_value()) co_return;
  const auto running = parents_of_running_.find(*parent);
  if (--running->second == 0) parents_of_running_.erase(running);
}

std::optional<Offloader::Admitted> Offloader::Admit(const BlockMeta& meta, uint32_t host_hits) {
  const WriteCandidate candidate{.key = meta.key,
                                 .record_bytes = RecordBytes(meta.length),
                                 .host_hits = host_hits,
                                 .disk_has_child = parts_.disks->HasChildOf(meta.key) ||
                                                   parents_of_running_.contains(meta.key)};
  const std::optional<DiskAdmission::Verdict> verdict =
      parts_.admission->Decide(candidate, parts_.executor->Now());
  if (!verdict.has_value()) {
    ++parts_.stats->disk_failed;  // None serves.
    return std::nullopt;
  }
  switch (verdict->decision) {
    case WriteDecision::kWrite:
      return Admitted{.meta = meta, .candidate = candidate, .verdict = *verdict};
    case WriteDecision::kNotWorthIt:
      ++parts_.stats->not_worth_it;
      break;
    case WriteDecision::kOverBudget:
      ++parts_.stats->over_budget;
      break;
  }
  return std::nullopt;
}

Task<void> Offloader::Write(Admitted admitted, std::span<const std::byte> slot) {
  const BlockMeta& meta = admitted.meta;
  // Workers may write the arena: a block that changed after commit stops here.
  bool altered = false;
  ByteWorkers::Work verify = [&] { altered = SumPayload(slot.first(meta.length)) != meta.sum; };
  co_await parts_.workers->Run(std::move(verify));
  if (altered) {
    ++parts_.stats->altered;
    Log(LogLevel::kError, absl::StrCat("block ", meta.key.ToHex(),
                                       " changed in host memory after its commit: not written"));
    co_return;
  }
  const HostSlot& from = parts_.index->Find(meta.key)->host;
  const std::string tenant = parts_.tenants->OfDomain(from.domain()).name;
  const absl::Status written = co_await parts_.disks->Put(meta, slot, tenant);
  if (written.ok()) {
    ++parts_.stats->written;
    parts_.admission->Landed(admitted.candidate, admitted.verdict, parts_.executor->Now());
  } else if (absl::IsResourceExhausted(written)) {
    ++parts_.stats->disk_full;
  } else if (!absl::IsAborted(written)) {  // Else its tenant is being erased: no failure.
    ++parts_.stats->disk_failed;
  }
}

void Offloader::Audit() const {
  KVT_CHECK(pending_.size() == pending());
  if (cold_end_.has_value()) cold_end_->Audit();
}

}  // namespace kvtier
