#include "agent/index/evict.h"

#include <optional>
#include <utility>
#include <vector>

namespace kvtier {
namespace {

// Blocks evicted for one slot when steps of workers may still read what they leave: the
// slots are free a step later, so more would be lost for nothing.
constexpr size_t kMaxDrainedForOne = 4;

}  // namespace

absl::StatusOr<HostSlot> Evictor::ReserveHost(DomainId domain, const BlockRoom& room) {
  absl::StatusOr<HostSlot> slot = host_->Reserve(domain, room);
  if (slot.ok() || !absl::IsResourceExhausted(slot.status())) return slot;
  const std::vector<BlockKey> victims =
      index_->VictimsInHost(domain, room.slot_bytes, host_->slots(domain));
  if (victims.empty()) {
    ++host_stats_->declined;
    return slot;
  }
  for (const BlockKey& victim : victims) EvictFromHost(victim);
  return host_->Reserve(domain, room);
}

void Evictor::EvictFromHost(const BlockKey& key) {
  DropFromHost(key);
  if (!index_->NearestTier(key).has_value()) evicted_.Add(key);
}

void Evictor::DropFromHost(const BlockKey& key) {
  const HostSlot freed = index_->UnpublishHost(key);
  ++host_stats_->evictions;
}

absl::StatusOr<GpuSlot> Evictor::ReserveGpu() {
  gpu_workers_->words()->Observe();
  for (size_t drained = 0;;) {
    absl::StatusOr<GpuSlot> slot = gpu_->Reserve();
    if (slot.ok()) return slot;
    if (drained == kMaxDrainedForOne || !EvictOneGpu()) {
      ++gpu_stats_->declined;
      return slot;
    }
    if (gpu_->table().free_slots() == 0) ++drained;
  }
}

bool Evictor::EvictOneGpu() {
  if (EvictGpuCopy()) return true;
  const std::optional<BlockKey> victim = index_->CheapestInGpu();
  if (victim.has_value()) DropFromGpu(*victim);
  return victim.has_value();
}

bool Evictor::EvictGpuCopy() {
  const std::optional<BlockKey> victim = index_->CheapestCopyInGpu();
  if (victim.has_value()) DropFromGpu(*victim);
  return victim.has_value();
}

size_t Evictor::EvictGpuFrom(uint32_t first, size_t limit) {
  const std::vector<BlockKey> victims = index_->UnheldInGpuFrom(first, limit);
  for (const BlockKey& victim : victims) DropFromGpu(victim);
  return victims.size();
}

void Evictor::DropFromGpu(const BlockKey& key) {
  const GpuSlot freed = index_->UnpublishGpu(key);
  ++gpu_stats_->evictions;
}

uint64_t Evictor::EvictAll(Tier tier) {
  uint64_t evicted = 0;
  if (tier == Tier::kGpu) {
    while (EvictOneGpu()) ++evicted;
  }
  if (tier == Tier::kHost) {
    for (size_t domain = 0; domain < host_->domain_count(); ++domain) {
      evicted += EvictDomain(static_cast<DomainId>(domain));
    }
  }
  return evicted;
}

uint64_t Evictor::EvictDomain(DomainId domain) {
  uint64_t evicted = 0;
  while (const std::optional<BlockKey> victim = index_->ColdestInHost(domain)) {
    EvictFromHost(*victim);
    ++evicted;
  }
  return evicted;
}

}  // namespace kvtier
