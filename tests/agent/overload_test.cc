// Tests an agent with ten times the callers that it has memory for: a call beyond the budget is
// refused in the turn in which it arrives, waits for nothing and leaves nothing to be done.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/limits.h"
#include "agent/services/call_budget.h"
#include "agent/services/onboard_stream.h"
#include "tests/agent/agent_rig.h"
#include "tests/agent/worker_calls.h"

namespace kvtier::testing {
namespace {

using ::testing::HasSubstr;

constexpr size_t kKeys = 8192;
// Number of clients, each of which alone may take the whole budget.
constexpr size_t kClients = 10;

class OverloadTest : public ::testing::Test {
 protected:
  using Match = UnaryCall<v1::MatchRequest, v1::MatchResponse>;

  OverloadTest() {
    for (size_t client = 0; client < kClients; ++client) {
      clients_.push_back(*calls_.Open(client % 2));
      asked_.push_back(WorkerCalls::About<v1::MatchRequest>(clients_.back(), 1, kKeys));
      wanted_.push_back(WorkerCalls::About<v1::OnboardRequest>(clients_.back(), 1, kKeys));
      wanted_.back().set_target(v1::TIER_HOST);
    }
  }
  // Sends calls of all clients, as many as would fill the budget once for each client; every third
  // is an onboard in parts.
  void Flood() {
    size_t sent = 0;
    while (sent < kClients * kMaxWorkerCallBytes) {
      const size_t client = calls_sent_++ % kClients;
      if (calls_sent_ % 3 == 0) {
        const size_t bytes = OnboardStream::MemoryOf(wanted_[client]);
        sent += bytes;
        Sort(calls_.BeginParts(wanted_[client]), bytes, &parts_);
      } else {
        const size_t bytes = CallBudget::MemoryOf(asked_[client]);
        sent += bytes;
        Sort(calls_.Begin(&WorkerService::Match, asked_[client]), bytes, &matches_);
      }
    }
  }
  // Keeps a call that was accepted, or checks the error of one that was refused.
  template <typename Call>
  void Sort(std::unique_ptr<Call> call, size_t bytes, std::vector<std::unique_ptr<Call>>* let_in) {
    if (!call->is_answered()) {
      let_in->push_back(std::move(call));
      bytes_ += bytes;
      ASSERT_LE(bytes_, kMaxWorkerCallBytes);
      return;
    }
    ++refused_;
    ASSERT_EQ(call->status().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    ASSERT_THAT(call->status().error_message(), HasSubstr(std::to_string(bytes)));
  }
  // Closes all sessions, which answers the calls that were accepted; returns how many turns that
  // took.
  uint64_t Drain() {
    for (const WorkerCalls::Worker& client : clients_) rig_.agent->CloseSession(client.id);
    const uint64_t before = rig_.time.events_run();
    rig_.Pass(absl::ZeroDuration());
    const uint64_t turns = rig_.time.events_run() - before;
    for (const auto& call : matches_) EXPECT_TRUE(call->is_answered());
    for (const auto& call : parts_) EXPECT_TRUE(call->is_answered());
    return turns;
  }

  AgentRig rig_{{.slots = 16, .disk = false}};
  WorkerCalls calls_{&rig_};
  std::vector<WorkerCalls::Worker> clients_;
  std::vector<v1::MatchRequest> asked_;          // One for each client.
  std::vector<v1::OnboardRequest> wanted_;       // One for each client.
  std::vector<std::unique_ptr<Match>> matches_;  // Calls that were accepted.
  std::vector<std::unique_ptr<PartsCall>> parts_;
  size_t calls_sent_ = 0;
  size_t refused_ = 0;
  size_t bytes_ = 0;  // Budget that the accepted calls take.
};

TEST_F(OverloadTest, WhatIsBeyondTheBudgetIsRefusedInTheTurnInWhichItArrives) {
  const uint64_t turns = rig_.time.events_run();
  const absl::Time now = rig_.time.Now();
  Flood();
  EXPECT_EQ(rig_.time.events_run(), turns) << "no turn of the agent was needed";
  EXPECT_EQ(rig_.time.Now(), now);
  EXPECT_GT(refused_, calls_sent_ / 2);
  EXPECT_GE(bytes_, kMaxWorkerCallBytes / 2) << "callers may fill what is there";
  const size_t let_in = matches_.size() + parts_.size();
  // Two turns for a call: it arrives, and begins.
  EXPECT_LE(Drain(), 2 * let_in + kClients) << "those that were refused left nothing behind";
  rig_.agent->Audit();
}

TEST_F(OverloadTest, WhenTheOthersAreOverCallsAreLetInAgain) {
  Flood();
  Drain();
  const WorkerCalls::Worker client = *calls_.Open(0);
  const auto call =
      calls_.Begin(&WorkerService::Match, WorkerCalls::About<v1::MatchRequest>(client, 1, kKeys));
  EXPECT_FALSE(call->is_answered());
  calls_.Await(*call);
  EXPECT_TRUE(call->status().ok()) << call->status().error_message();
}

}  // namespace
}  // namespace kvtier::testing
