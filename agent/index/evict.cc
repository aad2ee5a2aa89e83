#include "agent/index/evict.h"

#include <optional>
#include <utility>
#include <vector>

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

uint64_t Evictor::EvictAll() {
  uint64_t evicted = 0;
  for (size_t domain = 0; domain < host_->domain_count(); ++domain) {
    evicted += EvictDomain(static_cast<DomainId>(domain));
  }
  return evicted;
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

uint64_t Evictor::EvictDomain(DomainId domain) {
  uint64_t evicted = 0;
  while (const std::optional<BlockKey> victim = index_->FirstToLeaveHost(domain)) {
    EvictFromHost(*victim);
    ++evicted;
  }
  return evicted;
}

}  // namespace kvtier
