// ShareWatch checks an agent's promises to its tenants of host memory: a tenant that wants its
// guarantee has it within a stated time, all tenants together never take more than the node has,
// and no two of them share a page.
#ifndef KVTIER_TESTS_SIM_SHARE_WATCH_H_
#define KVTIER_TESTS_SIM_SHARE_WATCH_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "agent/agent.h"
#include "tests/sim/oracle.h"
#include "tier_host/host_tier.h"

namespace kvtier::sim {

class ShareWatch {
 public:
  // Makes a watch. `name` is the node's, for texts to the oracle. Owns neither.
  ShareWatch(const Agent* agent, Oracle* oracle, std::string name)
      : agent_(agent),
        oracle_(oracle),
        name_(std::move(name)),
        last_slabs_(agent->host_shares().slabs()) {}

  // Checks the agent's state at `now`.
  void Look(absl::Time now);

 private:
  // Returns whether the domain lacks some of its guarantee.
  bool IsShort(DomainId domain, const TierShare& share) const;

  // Checks that each domain's memory is a file of its own, with as many pages as its slabs have.
  void LookAtPages(absl::Time now);

  const Agent* const agent_;
  Oracle* const oracle_;
  const std::string name_;
  std::map<DomainId, absl::Time> short_since_;
  std::map<DomainId, absl::Time> stray_since_;  // The domain's file has pages beyond its slabs.
  uint64_t last_present_ = 0;                   // Slabs.
  uint64_t last_slabs_ = 0;                     // Slabs that the node might have at the last look.
};

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_SHARE_WATCH_H_
