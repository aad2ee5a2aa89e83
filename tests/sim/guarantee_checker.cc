#include "tests/sim/guarantee_checker.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/check.h"

namespace kvtier::sim {
namespace {

// Longest time that a tenant may lack some of its guarantee. The agent waits for a slab no longer
// than kSlabLeaveTimeout, then tries another one and moves it.
constexpr absl::Duration kMaxShort = absl::Seconds(100);
// Longest time until the agent gives back the pages that a worker took by reading memory that its
// domain no longer has.
constexpr absl::Duration kMaxStray = absl::Seconds(2);

}  // namespace

bool GuaranteeChecker::IsShort(DomainId domain, const TierShare& share) const {
  const SlotPool& slots = agent_->host().slots(domain);
  const uint64_t held = slots.present_slabs() - slots.closed_slabs();
  return held < std::min(share.guaranteed, agent_->host_shares().WantedBy(domain, agent_->host()));
}

void GuaranteeChecker::Check(absl::Time now) {
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
        now - since <= kMaxShort,
        absl::StrCat(name_, ": tenant ", i, " has lacked some of its ", share.guaranteed,
                     " guaranteed slabs for ", absl::FormatDuration(now - since)));
  }
  CheckPages(now);
  // With fixed memory there is no bound: a tenant that comes gets a slab beside those of the
  // others.
  const bool is_bounded =
      agent_->options().host_memory == HostMemory::kMoving && agent_->options().staging_bytes == 0;
  // A node that shrinks has its slabs until they have left. Since the last check it may have grown
  // up to the size that it might have then.
  const uint64_t slabs = agent_->host_shares().slabs();
  uint64_t bound = slabs;
  if (agent_->host_resizer().is_under_way()) bound = std::max({bound, last_present_, last_slabs_});
  last_present_ = present;
  last_slabs_ = slabs;
  oracle_->Expect(!is_bounded || present <= bound,
                  absl::StrCat(name_, " has ", present, " slabs of host memory, and may have ",
                               agent_->host_shares().slabs()));
}

void GuaranteeChecker::CheckPages(absl::Time now) {
  std::set<std::pair<dev_t, ino_t>> files;
  for (size_t i = 0; i < agent_->host().domain_count(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    const Arena& arena = agent_->host().arena(domain);
    struct stat file{};
    KVT_CHECK(fstat(arena.read_only_fd(), &file) == 0);
    oracle_->Expect(files.insert({file.st_dev, file.st_ino}).second,
                    absl::StrCat(name_, ": tenant ", i, " shares a file with another"));
    const SlotPool& slots = agent_->host().slots(domain);
    const uint64_t held = arena.held_bytes();
    oracle_->Expect(held >= slots.capacity_bytes(),
                    absl::StrCat(name_, ": tenant ", i, " has ", slots.capacity_bytes(),
                                 " bytes of slabs, and ", held, " of pages"));
    // Pages of an arena that workers may not write stay: the kernel punches no hole there.
    if (agent_->options().staging_bytes > 0) continue;
    const uint64_t most =
        slots.capacity_bytes() + agent_->mover().SlabsBetween(domain) * slots.slab_bytes();
    if (held <= most) {
      stray_since_.erase(domain);
      continue;
    }
    const absl::Time since = stray_since_.try_emplace(domain, now).first->second;
    oracle_->Expect(now - since <= kMaxStray,
                    absl::StrCat(name_, ": tenant ", i, " keeps ", held,
                                 " bytes of pages, and has ", most, " of slabs"));
  }
}

}  // namespace kvtier::sim
