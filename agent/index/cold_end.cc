#include "agent/index/cold_end.h"

#include <algorithm>

namespace kvtier {

std::optional<ColdEnd::Size> ColdEnd::Neediest() const {
  std::optional<Size> neediest;
  double least = 1;
  for (size_t number = 0; number < index_->domain_count(); ++number) {
    const auto domain = static_cast<DomainId>(number);
    // Free slots in slabs that are in use are left out: they are of one size each.
    const uint64_t free_bytes = host_->slots(domain).free_slab_bytes();
    for (const HostOrder::SizeUse& use : index_->host_order(domain).UseBySize()) {
      if (use.aside == use.blocks) continue;
      const uint64_t wanted = std::max(use.slot_bytes, use.blocks * use.slot_bytes / kReadyDivisor);
      const uint64_t there = use.aside * use.slot_bytes + free_bytes;
      const double fullness = static_cast<double>(there) / static_cast<double>(wanted);
      if (fullness >= least) continue;
      least = fullness;
      neediest = Size{.domain = domain, .slot_bytes = use.slot_bytes};
    }
  }
  return neediest;
}

std::optional<BlockKey> ColdEnd::TakeNext() {
  while (const std::optional<Size> size = Neediest()) {
    const auto next = index_->OrderNow(size->domain).SetNextAside(size->slot_bytes);
    if (!next.has_value()) return std::nullopt;  // All blocks are held.
    if (!next->again) return next->key;
  }
  return std::nullopt;
}

}  // namespace kvtier
