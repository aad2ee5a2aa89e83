#include "tests/sim/guarantee_checker.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "tier_host/host_shares.h"

namespace kvtier::sim {
namespace {

// Longest time until the agent gives back the pages that a worker took by reading memory that its
// domain no longer has.
constexpr absl::Duration kMaxStray = absl::Seconds(2);
// Longest time between two checks for which a promise is taken to be open all the time.
constexpr absl::Duration kMaxBetweenChecks = absl::Seconds(1);

}  // namespace

std::vector<uint64_t> GuaranteeChecker::Guarantees() const {
  const HostTier& host = agent_->host();
  const HostShares& shares = agent_->host_shares();
  uint64_t left = shares.slabs();
  for (size_t i = 0; i < host.domain_count(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    if (shares.is_fixed(domain))
      left -= std::min<uint64_t>(left, host.slots(domain).present_slabs());
  }
  std::vector<uint64_t> guarantees;
  for (size_t i = 0; i < host.domain_count(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    const bool is_fixed = shares.is_fixed(domain);
    guarantees.push_back(is_fixed ? 0 : std::min(left, shares.Of(domain).guaranteed));
    left -= guarantees.back();
  }
  return guarantees;
}

void GuaranteeChecker::NoteHeld(absl::Time now) {
  std::set<Slab> closed;
  for (size_t i = 0; i < agent_->host().domain_count(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    const SlotPool& slots = agent_->host().slots(domain);
    if (slots.closed_slabs() == 0) continue;
    for (uint32_t slab = 0; slab < slots.slab_count(); ++slab) {
      if (!slots.IsClosed(slab)) continue;
      closed.insert({domain, slab});
      // Blocks that nobody holds leave a slab long before the next check.
      if (slots.UseOf(slab).used > 0 && closed_.contains({domain, slab})) last_held_ = now;
    }
  }
  closed_ = std::move(closed);
}

bool GuaranteeChecker::IsHungry(DomainId domain) {
  const EvictionLedger& ledger = agent_->evictor().ledger();
  const uint64_t own = ledger.Of(domain) - ledger.SufferedBy(domain);
  const uint64_t refused = std::exchange(refused_[domain], 0);
  const bool has_evicted = own > std::exchange(evicted_[domain], own);
  // While the node shrinks, blocks leave for nobody, which counts as for their own domain.
  if (agent_->host_resizer().is_under_way()) return false;
  // A worker is also refused room while the disks are behind.
  return has_evicted || (refused > 0 && agent_->host().slots(domain).free_slabs() == 0);
}

void GuaranteeChecker::ExpectMet(UnmetByDomain* unmet, DomainId domain, const Promise& promise,
                                 absl::Time now) {
  const auto is_met = [&](uint64_t slabs) {
    return promise.bound == Bound::kAtLeast ? promise.has >= slabs : promise.has <= slabs;
  };
  if (is_met(promise.slabs)) {
    unmet->erase(domain);
    return;
  }
  Unmet& open =
      unmet->try_emplace(domain, Unmet{.since = now, .slabs = promise.slabs}).first->second;
  open.slabs = promise.bound == Bound::kAtLeast ? std::min(open.slabs, promise.slabs)
                                                : std::max(open.slabs, promise.slabs);
  // The promise that stood all the time has been kept, and more was promised since.
  if (is_met(open.slabs)) open = {.since = now, .slabs = promise.slabs};
  const bool is_late = now - std::max(open.since, last_held_) > kTakeBackTime ||
                       now - open.since > kTakeBackTimeHeld;
  oracle_->Expect(!is_late,
                  absl::StrCat(name_, ": tenant ", static_cast<uint32_t>(domain), " has ",
                               promise.has, " slabs; must have ", promise.what, " ", open.slabs,
                               ", since ", absl::FormatDuration(now - open.since),
                               "; a slab that is to leave was last held ",
                               absl::FormatDuration(now - last_held_), " ago"));
}

void GuaranteeChecker::CheckShares(absl::Time now) {
  // Nothing is known of a time without checks.
  if (now - last_check_ > kMaxBetweenChecks) {
    for (UnmetByDomain* const unmet : {&lacks_, &hungry_, &beyond_}) unmet->clear();
  }
  last_check_ = now;
  NoteHeld(now);
  const std::vector<uint64_t> guarantees = Guarantees();
  for (size_t i = 0; i < guarantees.size(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    if (!agent_->HostMemoryMoves(domain)) continue;
    const SlotPool& slots = agent_->host().slots(domain);
    const uint64_t has = slots.present_slabs() - slots.closed_slabs();
    const uint64_t wanted = agent_->host_shares().WantedBy(domain, agent_->host());
    const uint64_t shown = IsHungry(domain) ? has + 1 : 0;
    ExpectMet(&lacks_, domain,
              {.bound = Bound::kAtLeast,
               .slabs = std::min(guarantees[i], wanted),
               .has = has,
               .what = "of its guarantee, which it wants,"},
              now);
    ExpectMet(&hungry_, domain,
              {.bound = Bound::kAtLeast,
               .slabs = std::min(guarantees[i], shown),
               .has = has,
               .what = "of its guarantee, as its workers find no room,"},
              now);
    // A tenant that was dropped keeps what is held of it, and nothing else.
    const uint64_t maximum = agent_->host_shares().Of(domain).maximum;
    ExpectMet(&beyond_, domain,
              {.bound = Bound::kAtMost,
               .slabs = maximum == 0 && slots.used_bytes() > 0 ? UINT64_MAX : maximum,
               .has = slots.present_slabs(),
               .what = "at most its maximum,"},
              now);
  }
}

void GuaranteeChecker::CheckSum() {
  uint64_t present = 0;
  for (size_t i = 0; i < agent_->host().domain_count(); ++i) {
    present += agent_->host().slots(static_cast<DomainId>(i)).present_slabs();
  }
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

void GuaranteeChecker::Check(absl::Time now) {
  CheckShares(now);
  CheckSum();
  CheckPages(now);
}

std::vector<uint32_t> GuaranteeChecker::StraySlabs(DomainId domain) const {
  const SlotPool& slots = agent_->host().slots(domain);
  const int fd = agent_->host().arena(domain).read_only_fd();
  const uint64_t slab_bytes = slots.slab_bytes();
  std::vector<uint32_t> strays;
  for (uint64_t from = 0; from < slots.slab_count() * slab_bytes;) {
    // The kernel says where the file has its next page, also one that only a reader took.
    const off_t page = lseek(fd, static_cast<off_t>(from), SEEK_DATA);
    if (page < 0) {
      KVT_CHECK(errno == ENXIO);
      break;
    }
    const auto slab = static_cast<uint32_t>(static_cast<uint64_t>(page) / slab_bytes);
    if (!slots.IsPresent(slab)) strays.push_back(slab);
    from = (slab + uint64_t{1}) * slab_bytes;
  }
  return strays;
}

void GuaranteeChecker::CheckPages(absl::Time now) {
  std::map<Slab, absl::Time> stray_since;
  for (size_t i = 0; i < agent_->host().domain_count(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    if (!agent_->host().HasArena(domain)) continue;
    const uint64_t capacity = agent_->host().slots(domain).capacity_bytes();
    const uint64_t held = agent_->host().arena(domain).held_bytes();
    oracle_->Expect(held >= capacity, absl::StrCat(name_, ": tenant ", i, " has ", capacity,
                                                   " bytes of slabs, and ", held, " of pages"));
    // Pages of an arena that workers may not write stay: the kernel punches no hole there.
    if (agent_->options().staging_bytes > 0) continue;
    for (const uint32_t slab : StraySlabs(domain)) {
      const auto known = stray_since_.find({domain, slab});
      const absl::Time since = known == stray_since_.end() ? now : known->second;
      stray_since[{domain, slab}] = since;
      oracle_->Expect(
          now - since <= kMaxStray,
          absl::StrCat(name_, ": tenant ", i, " keeps pages of slab ", slab,
                       ", which it does not have, for ", absl::FormatDuration(now - since)));
    }
  }
  stray_since_ = std::move(stray_since);
}

}  // namespace kvtier::sim
