// Holds what tests of the lanes of host memory share: a fake agent, a client, and lanes over
// tensors.
#ifndef KVTIER_TESTS_CLIENT_HOST_RIG_H_
#define KVTIER_TESTS_CLIENT_HOST_RIG_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "client/host_lanes/host_lanes.h"
#include "tests/client/tensor_memory.h"
#include "tests/testing/fake_node.h"
#include "tests/testing/patience.h"

namespace kvtier::testing {

class HostRig {
 public:
  explicit HostRig(const FakeAgentOptions& agent = {}) : node_(Roomy(agent)) {
    node_.agent().Start();
    ClientOptions options = node_.client_options();
    options.default_timeout = Patience(absl::Seconds(5));
    client_ = *Client::Open(options);
  }

  FakeAgent& agent() { return node_.agent(); }
  Client& client() { return *client_; }
  SpaceHandle SpaceOf(const TensorMemory& memory) {
    return *client_->RegisterSpace(memory.space());
  }
  std::unique_ptr<HostLanes> Open(TensorMemory* memory, const HostLanesOptions& options = {}) {
    auto lanes = HostLanes::Open(client_.get(), SpaceOf(*memory), memory->tensors(), options);
    EXPECT_TRUE(lanes.ok()) << lanes.status();
    return lanes.ok() ? *std::move(lanes) : nullptr;
  }
  // Returns whether every lease and reservation was given back.
  bool HoldsNothing() {
    return Eventually([this] {
      const FakeAgentCounts counts = agent().Counts();
      return counts.leases == 0 && counts.reservations == 0;
    });
  }

 private:
  static FakeAgentOptions Roomy(FakeAgentOptions agent) {
    agent.slots = std::max<size_t>(agent.slots, 64);
    agent.slot_bytes = uint64_t{1} << 20;
    return agent;
  }

  FakeNode node_;
  std::unique_ptr<Client> client_;
};

// Waits for the job's end and returns its status; a job that was refused, or does not end, fails
// the test.
inline absl::Status EndOf(const absl::StatusOr<std::shared_ptr<HostJob>>& job) {
  if (!job.ok()) {
    ADD_FAILURE() << job.status();
    return job.status();
  }
  EXPECT_TRUE((*job)->Wait(Patience(kLong)));
  return (*job)->done() ? (*job)->status() : absl::DeadlineExceededError("still running");
}
// Returns the results of a job; an end with an error fails the test.
inline std::vector<bool> ResultsOf(const absl::StatusOr<std::shared_ptr<HostJob>>& job) {
  EXPECT_EQ(EndOf(job), absl::OkStatus());
  return job.ok() && (*job)->done() ? (*job)->results() : std::vector<bool>();
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_CLIENT_HOST_RIG_H_
