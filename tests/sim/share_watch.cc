#include "tests/sim/share_watch.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"

namespace kvtier::sim {
namespace {

// A slab is waited for no longer than kSlabLeaveTimeout; another one is tried then, and moved.
constexpr absl::Duration kBound = absl::Seconds(100);

}  // namespace

bool ShareWatch::IsShort(DomainId domain, const TierShare& share) const {
  const SlotPool& slots = agent_->host().slots(domain);
  const uint64_t held = slots.present_slabs() - slots.closed_slabs();
  return held < std::min(share.guaranteed, agent_->host_shares().WantedBy(domain, agent_->host()));
}

void ShareWatch::Look(absl::Time now) {
  const size_t domains = agent_->host().domain_count();
  uint64_t present = 0;
  for (size_t i = 0; i < domains; ++i) {
    const auto domain = static_cast<DomainId>(i);
    present += agent_->host().slots(domain).present_slabs();
    if (!agent_->HostMemoryMoves(domain)) continue;
    const TierShare share = agent_->host_shares().Of(domain);
    if (!IsShort(domain, share)) {
      short_since_.erase(domain);
      continue;
    }
    const absl::Time since = short_since_.try_emplace(domain, now).first->second;
    oracle_->Expect(
        now - since <= kBound,
        absl::StrCat(name_, ": tenant ", i, " has lacked some of its ", share.guaranteed,
                     " guaranteed slabs for ", absl::FormatDuration(now - since)));
  }
  // Where memory is fixed a tenant that comes gets a slab beside what the others have.
  const bool is_bounded =
      agent_->options().host_memory == HostMemory::kMoving && agent_->options().staging_bytes == 0;
  oracle_->Expect(!is_bounded || present <= agent_->host_shares().slabs(),
                  absl::StrCat(name_, " has ", present, " slabs of host memory, and may have ",
                               agent_->host_shares().slabs()));
}

}  // namespace kvtier::sim
