// GuaranteeChecker checks an agent's promises to its tenants of host memory: a tenant that wants
// its guarantee has it within a stated time, all tenants together never take more than the node
// has, and no two of them share a page.
#ifndef KVTIER_TESTS_SIM_GUARANTEE_CHECKER_H_
#define KVTIER_TESTS_SIM_GUARANTEE_CHECKER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "agent/agent.h"
#include "tests/sim/oracle.h"
#include "tier_host/host_tier.h"

namespace kvtier::sim {

class GuaranteeChecker {
 public:
  // Makes a checker. `name` is the node's, for messages to the oracle. Owns neither `agent` nor
  // `oracle`.
  GuaranteeChecker(const Agent* agent, Oracle* oracle, std::string name)
      : agent_(agent),
        oracle_(oracle),
        name_(std::move(name)),
        last_slabs_(agent->host_shares().slabs()) {}

  // Checks the agent's state at `now`.
  void Check(absl::Time now);

 private:
  // Returns whether the domain lacks some of its guarantee.
  bool IsShort(DomainId domain, const TierShare& share) const;

  // Checks that each domain's memory is a file of its own, with as many pages as its slabs have.
  void CheckPages(absl::Time now);

  const Agent* const agent_;
  Oracle* const oracle_;
  const std::string name_;
  // Time since which a tenant has lacked some of its guarantee, by domain.
  std::map<DomainId, absl::Time> short_since_;
  // Time since which the domain's file has had pages beyond its slabs, by domain.
  std::map<DomainId, absl::Time> stray_since_;
  uint64_t last_present_ = 0;  // Slabs that the node had at the last check.
  uint64_t last_slabs_ = 0;    // Slabs that the node might have at the last check.
};

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_GUARANTEE_CHECKER_H_
