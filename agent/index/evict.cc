#include "agent/index/evict.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "agent/limits.h"
#include "core/event.h"

namespace kvtier {

absl::StatusOr<HostSlot> Evictor::ReserveHost(DomainId domain, const BlockRoom& room) {
  absl::StatusOr<HostSlot> slot = host_->Reserve(domain, room);
  if (slot.ok() || !absl::IsResourceExhausted(slot.status())) return slot;
  return ReserveByEviction(domain, room, slot.status());
}

absl::StatusOr<HostSlot> Evictor::ReserveByEviction(DomainId domain, const BlockRoom& room,
                                                    const absl::Status& full) {
  // One round is enough, unless the victims lay in a closed slab, which hands out no slots; there
  // are few such blocks.
  while (true) {
    const std::vector<BlockKey> victims =
        index_->VictimsInHost(domain, room.slot_bytes, host_->slots(domain));
    if (victims.empty()) break;
    for (const BlockKey& victim : victims) EvictFromHost(victim);
    ledger_.Count(domain, domain, victims.size());
    absl::StatusOr<HostSlot> slot = host_->Reserve(domain, room);
    if (slot.ok() || host_->slots(domain).closed_slabs() == 0) return slot;
  }
  ++stats_->declined;
  return full;
}

absl::StatusOr<HostSlot> Evictor::ReserveHostFor(DomainId domain, const BlockRoom& room,
                                                 const HostOrder::Newcomer& newcomer) {
  absl::StatusOr<HostSlot> slot = host_->Reserve(domain, room);
  if (slot.ok() || !absl::IsResourceExhausted(slot.status())) return slot;
  HostOrder& order = index_->OrderNow(domain);
  if (order.Admits(newcomer)) return ReserveByEviction(domain, room, slot.status());
  order.Refuse(newcomer);
  ++stats_->declined;
  return absl::FailedPreconditionError(
      "the block is less likely to be used again than the blocks in host memory, so it is not "
      "kept");
}

void Evictor::EvictFromHost(const BlockKey& key) {
  DropFromHost(key);
  if (!index_->NearestTier(key).has_value()) evicted_.Add(key);
}

void Evictor::DropFromHost(const BlockKey& key) {
  const HostSlot freed = index_->UnpublishHost(key);
  ++stats_->evictions;
}

Task<uint64_t> Evictor::EvictAll(Executor* executor) {
  uint64_t evicted = 0;
  for (size_t i = 0; i < host_->domain_count(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    // A writer that goes on putting does not keep the call from ending.
    evicted += co_await EvictDomain(executor, domain, index_->blocks_in_host(domain));
  }
  co_return evicted;
}

bool Evictor::EvictNext(DomainId domain, uint64_t slot_bytes, DomainId cause) {
  const std::optional<BlockKey> victim = index_->OrderNow(domain).VictimOf(slot_bytes);
  if (!victim.has_value()) return false;
  EvictFromHost(*victim);
  ledger_.Count(domain, cause, 1);
  return true;
}

void Evictor::EvictSlab(DomainId domain, uint32_t slab, DomainId cause) {
  uint64_t evicted = 0;
  for (const BlockKey& key : index_->host_order(domain).BlocksOf(slab)) {
    if (index_->IsPinned(key) || index_->IsKept(key)) continue;
    EvictFromHost(key);
    ++evicted;
  }
  ledger_.Count(domain, cause, evicted);
}

Task<uint64_t> Evictor::EvictDomain(Executor* executor, DomainId domain, uint64_t limit) {
  uint64_t evicted = 0;
  while (evicted < limit) {
    const uint64_t part = std::min<uint64_t>(kEvictedPerTurn, limit - evicted);
    const uint64_t dropped = EvictSome(domain, part);
    evicted += dropped;
    if (dropped < part) break;
    co_await SleepUntil(executor, executor->Now());
  }
  co_return evicted;
}

uint64_t Evictor::EvictSome(DomainId domain, uint64_t limit) {
  uint64_t evicted = 0;
  for (; evicted < limit; ++evicted) {
    const std::optional<BlockKey> victim = index_->FirstToLeaveHost(domain);
    if (!victim.has_value()) break;
    EvictFromHost(*victim);
  }
  return evicted;
}

}  // namespace kvtier
