// GuaranteeChecker checks an agent's promises to its tenants of host memory. A tenant that wants
// its guarantee has it within a stated time, and after that time none has more than its maximum;
// all tenants together never take more than the node has; and a slab that left a tenant leaves no
// page behind in the tenant's file.
//
// A tenant wants the memory that the agent says. Besides, whatever the agent says, it wants one
// more slab when its blocks make room for its own or its workers are refused room.
#ifndef KVTIER_TESTS_SIM_GUARANTEE_CHECKER_H_
#define KVTIER_TESTS_SIM_GUARANTEE_CHECKER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "agent/agent.h"
#include "agent/limits.h"
#include "tests/sim/oracle.h"
#include "tier_host/host_tier.h"

namespace kvtier::sim {

// Longest time until a tenant has what it is promised, while no slab that is to leave is held. The
// pages state this time and the next: tests/layers/test_stated_times.py.
inline constexpr absl::Duration kTakeBackTime = absl::Seconds(11);
// Longest such time, where slabs are held. One of them may stay until the agent tries another,
// whose leases then have to end.
inline const absl::Duration kTakeBackTimeHeld = kSlabLeaveTimeout + kLeaseDuration + kLeaseGrace;

class GuaranteeChecker {
 public:
  // Makes a checker. `name` is the node's, for messages to the oracle. Owns neither `agent` nor
  // `oracle`.
  GuaranteeChecker(Agent* agent, Oracle* oracle, std::string name)
      : agent_(agent),
        oracle_(oracle),
        name_(std::move(name)),
        last_slabs_(agent->host_shares().slabs()) {}

  // Notes that a worker of the domain was refused room in host memory for that many blocks.
  void NoteRefused(DomainId domain, uint64_t blocks) { refused_[domain] += blocks; }

  // Checks the agent's state at `now`.
  void Check(absl::Time now);

 private:
  using Slab = std::pair<DomainId, uint32_t>;
  // Time since which a domain has not had what it was promised, and the easiest promise since then,
  // in slabs.
  struct Unmet {
    absl::Time since;
    uint64_t slabs = 0;
  };
  using UnmetByDomain = std::map<DomainId, Unmet>;
  // A promise in slabs, and what the domain has. kAtLeast: a guarantee. kAtMost: a maximum.
  enum class Bound : uint8_t { kAtLeast, kAtMost };
  struct Promise {
    Bound bound;
    uint64_t slabs = 0;
    uint64_t has = 0;
    const char* what = "";  // For messages.
  };

  // Returns what each domain is guaranteed, in slabs: what fixed domains hold is nobody's, and
  // guarantees are cut to the rest in the order of the domains.
  std::vector<uint64_t> Guarantees() const;
  // Notes whether some slab that is to leave is held, at this check and the last one.
  void NoteHeld(absl::Time now);
  // Returns whether blocks of the domain made room for its own, or were refused, since the last
  // call.
  bool IsHungry(DomainId domain);
  // Checks that the promise is met, or has not been open for too long.
  void ExpectMet(UnmetByDomain* unmet, DomainId domain, const Promise& promise, absl::Time now);
  void CheckShares(absl::Time now);
  // Checks that all domains together have no more slabs than the node.
  void CheckSum();
  // Checks that each domain's file has all pages of its slabs, and soon none of others.
  void CheckPages(absl::Time now);
  // Returns the absent slabs of the domain in which its file has pages.
  std::vector<uint32_t> StraySlabs(DomainId domain) const;

  Agent* const agent_;
  Oracle* const oracle_;
  const std::string name_;
  absl::Time last_check_ = absl::InfinitePast();
  // Slabs that were about to leave at the last check, and the time at which one of them was last
  // seen to be held.
  std::set<Slab> closed_;
  absl::Time last_held_ = absl::InfinitePast();
  UnmetByDomain lacks_;   // Guarantees, of what the agent says that domains want.
  UnmetByDomain hungry_;  // Guarantees, of what workers show that domains want.
  UnmetByDomain beyond_;  // Maxima.
  // Blocks that workers were refused room for since the last check, and blocks that had made room
  // for their own domain at that check.
  std::map<DomainId, uint64_t> refused_;
  std::map<DomainId, uint64_t> evicted_;
  // Time since which the domain's file has had pages in a slab that is not its own.
  std::map<Slab, absl::Time> stray_since_;
  uint64_t last_present_ = 0;  // Slabs that the node had at the last check.
  uint64_t last_slabs_ = 0;    // Slabs that the node might have at the last check.
};

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_GUARANTEE_CHECKER_H_
