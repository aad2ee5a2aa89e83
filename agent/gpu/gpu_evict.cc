#include "agent/gpu/gpu_evict.h"

#include <optional>
#include <vector>

namespace kvtier {
namespace {

// Blocks evicted for one slot while steps of workers may still read the slots that they leave. Such
// slots are free a step later, so it would be of no use to evict more.
constexpr size_t kMaxDrainedForOne = 4;

}  // namespace

absl::StatusOr<GpuSlot> GpuEvictor::Reserve() {
  parts_.words->Observe();
  for (size_t drained = 0;;) {
    absl::StatusOr<GpuSlot> slot = parts_.pool->Reserve();
    if (slot.ok()) return slot;
    if (drained == kMaxDrainedForOne || !EvictOne()) {
      ++parts_.stats->declined;
      return slot;
    }
    if (parts_.pool->table().free_slots() == 0) ++drained;
  }
}

bool GpuEvictor::EvictOne() {
  if (EvictCopy()) return true;
  const std::optional<BlockKey> victim = parts_.blocks->Cheapest();
  if (victim.has_value()) Drop(*victim);
  return victim.has_value();
}

bool GpuEvictor::EvictCopy() {
  const std::optional<BlockKey> victim = parts_.blocks->CheapestCopy();
  if (victim.has_value()) Drop(*victim);
  return victim.has_value();
}

size_t GpuEvictor::EvictFrom(uint32_t first, size_t limit) {
  const std::vector<BlockKey> victims = parts_.blocks->UnheldFrom(first, limit);
  for (const BlockKey& victim : victims) Drop(victim);
  return victims.size();
}

uint64_t GpuEvictor::EvictSome(uint64_t limit) {
  uint64_t evicted = 0;
  while (evicted < limit && EvictOne()) ++evicted;
  return evicted;
}

void GpuEvictor::Drop(const BlockKey& key) {
  const GpuSlot freed = parts_.blocks->Unpublish(key);
  ++parts_.stats->evictions;
}

}  // namespace kvtier
