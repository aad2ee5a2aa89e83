// SimCoordinatorLink is the CoordinatorLink seam over a SimNetwork: unary calls that
// may be lost, repeated or overtaken on either way.
#ifndef KVTIER_TESTS_TESTING_SIM_COORDINATOR_LINK_H_
#define KVTIER_TESTS_TESTING_SIM_COORDINATOR_LINK_H_

#include <string>
#include <vector>

#include "agent/peers/coordinator_link.h"
#include "core/executor.h"
#include "tests/testing/sim_network.h"

namespace kvtier::testing {

class SimCoordinatorLink final : public CoordinatorLink {
 public:
  // Makes a link. Does not own `executor` and `network`; `network` outlives the link and its
  // messages.
  SimCoordinatorLink(Executor* executor, SimNetwork* network, std::string self)
      : executor_(executor), network_(network), self_(std::move(self)) {}

  Task<absl::StatusOr<ReportReply>> Send(Report report, absl::Time deadline) override;
  Task<absl::StatusOr<LocateReply>> Locate(LocateQuery query, absl::Time deadline) override;

 private:
  Executor* const executor_;
  SimNetwork* const network_;
  const std::string self_;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_SIM_COORDINATOR_LINK_H_
