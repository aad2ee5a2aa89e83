// Holds what tests of the worker lanes share: a fake agent, a client, an emulated device, and lanes
// between them.
#ifndef KVTIER_TESTS_CLIENT_LANES_RIG_H_
#define KVTIER_TESTS_CLIENT_LANES_RIG_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "client/lanes/worker_lanes.h"
#include "client/lanes/worker_pool.h"
#include "tests/client/tensor_memory.h"
#include "tests/testing/fake_node.h"
#include "tests/testing/faulty_device.h"
#include "tests/testing/patience.h"

namespace kvtier::testing {

class LanesRig {
 public:
  explicit LanesRig(const EmulatedDevice::Options& device = {}, const FakeAgentOptions& agent = {},
                    const Clock* device_clock = nullptr)
      : node_(Roomy(agent)), device_(device_clock == nullptr ? &clock_ : device_clock, device) {
    node_.agent().Start();
    ClientOptions options = node_.client_options();
    options.default_timeout = Patience(absl::Seconds(5));
    client_ = *Client::Open(options);
    lanes_ = *WorkerLanes::Open(client_.get(), &device_);
  }

  FakeAgent& agent() { return node_.agent(); }
  Client& client() { return *client_; }
  FaultyDevice& device() { return device_; }
  WorkerLanes& lanes() { return *lanes_; }
  // Destroys the lanes, as their owner does at the end.
  void DropLanes() { lanes_.reset(); }
  // Runs `fn` on the lanes' thread, where the device's faults are caused.
  template <typename Fn>
  void OnDevice(Fn fn) {
    lanes_->On([this, &fn] {
      fn(device_);
      return true;
    });
  }
  std::unique_ptr<WorkerPool> Register(TensorMemory* memory) {
    return Register(memory->tensors(), memory->space());
  }
  std::unique_ptr<WorkerPool> Register(const KvTensors& tensors, const SpaceSpec& spec) {
    auto pool = WorkerPool::Register(lanes_.get(), tensors, spec);
    EXPECT_TRUE(pool.ok()) << pool.status();
    return pool.ok() ? *std::move(pool) : nullptr;
  }

 private:
  static FakeAgentOptions Roomy(FakeAgentOptions agent) {
    agent.slots = std::max<size_t>(agent.slots, 64);
    agent.slot_bytes = uint64_t{1} << 20;
    return agent;
  }

  MonotonicClock clock_;
  FakeNode node_;
  std::unique_ptr<Client> client_;
  FaultyDevice device_;
  std::unique_ptr<WorkerLanes> lanes_;
};

// Waits for the job's end and returns its status; a job that was refused, or does not end, fails
// the test.
inline absl::Status EndOf(const absl::StatusOr<std::shared_ptr<LaneJob>>& job) {
  if (!job.ok()) {
    ADD_FAILURE() << job.status();
    return job.status();
  }
  EXPECT_TRUE((*job)->Wait(Patience(kLong)));
  return (*job)->done() ? (*job)->status() : absl::DeadlineExceededError("still running");
}
// Returns how many blocks the job copied; an end with an error fails the test.
inline size_t BlocksOf(const absl::StatusOr<std::shared_ptr<LaneJob>>& job) {
  EXPECT_EQ(EndOf(job), absl::OkStatus());
  return job.ok() && (*job)->done() ? (*job)->blocks() : 0;
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_CLIENT_LANES_RIG_H_
