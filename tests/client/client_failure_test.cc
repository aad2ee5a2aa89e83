// Tests the client with an agent that is absent, slow, stuck, killed or the wrong one: never an
// error, never a wait past the deadline, and the client recovers by itself.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "client/client.h"
#include "core/clock.h"
#include "gtest/gtest.h"
#include "proto/layout_digest.h"
#include "tests/testing/blocks.h"
#include "tests/testing/fake_node.h"

namespace kvtier {
namespace {

using testing::Eventually;
using testing::FakeAgent;
using testing::FakeNode;
using testing::GetBlocks;
using testing::PutBlocks;
using testing::TestKeys;

// Time that a loaded machine with two cores may add to a deadline.
constexpr absl::Duration kSlack = absl::Milliseconds(500);
// Bound for "at once": microseconds on an idle machine, and far less than the timeouts of the
// calls.
constexpr absl::Duration kAtOnce = absl::Seconds(2);

template <typename Call>
absl::Duration Took(Call call) {
  const MonotonicClock clock;
  const absl::Time start = clock.Now();
  call();
  return clock.Now() - start;
}

class ClientFailureTest : public ::testing::Test {
 protected:
  // Connects to a running agent that holds `keys_`.
  void StartWithBlocks() {
    node_.agent().Start();
    client_ = node_.OpenClient();
    space_ = *client_->RegisterSpace(node_.space());
    ASSERT_EQ(PutBlocks(client_.get(), space_, keys_), keys_.size());
  }
  OnboardedBlocks Onboard(absl::Duration timeout) {
    return *client_->Onboard(space_, keys_, {.timeout = timeout});
  }
  // Fails calls until the breaker opens.
  void OpenBreaker() {
    node_.agent().HangCalls(FakeAgent::Hang::kAll);
    while (client_->Stats().breaker_opened == 0) {
      EXPECT_TRUE(Onboard(absl::Milliseconds(30)).empty());
    }
  }

  FakeNode node_;
  const std::vector<EngineKey> keys_ = TestKeys(1, 4);
  std::unique_ptr<Client> client_;
  SpaceHandle space_{};
};

TEST_F(ClientFailureTest, AMissWithoutAnAnswerSaysWhy) {
  StartWithBlocks();
  node_.agent().HangCalls(FakeAgent::Hang::kAll);
  EXPECT_EQ(Onboard(absl::Milliseconds(30)).missed(), MissReason::kDeadline);
  OpenBreaker();
  EXPECT_EQ(Onboard(absl::Milliseconds(30)).missed(), MissReason::kUnreachable);
  const ClientStats stats = client_->Stats();
  EXPECT_GE(stats.missed_because[static_cast<size_t>(MissReason::kDeadline)], keys_.size());
  EXPECT_GE(stats.missed_because[static_cast<size_t>(MissReason::kUnreachable)], keys_.size());
}

TEST_F(ClientFailureTest, AnAbsentAgentIsAMissAtOnce) {
  EXPECT_LT(Took([&] { client_ = node_.OpenClient(); }), kSlack);
  EXPECT_FALSE(client_->connected());
  space_ = *client_->RegisterSpace(node_.space());
  const absl::Duration took = Took([&] {
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(client_->Match(space_, keys_)->blocks, 0U);
      EXPECT_TRUE(Onboard(absl::Seconds(10)).empty());
      ReservedBlocks reserved = *client_->Reserve(space_, keys_);
      EXPECT_EQ(reserved.size(), keys_.size());
      EXPECT_EQ(reserved.state(0), ReservedBlocks::State::kNoRoom);
      EXPECT_FALSE(reserved.answered());
      EXPECT_EQ(reserved.Commit(), 0U);
      EXPECT_EQ(*client_->Prefetch(space_, keys_), 0U);
    }
  });
  EXPECT_LT(took, kAtOnce);
  EXPECT_EQ(client_->Ping(absl::Seconds(1)).code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(client_->Stats().last_error.find(node_.socket_dir()), std::string::npos);
}

TEST_F(ClientFailureTest, AnAgentThatComesLaterIsFoundAndToldOfTheSpaces) {
  client_ = node_.OpenClient();
  space_ = *client_->RegisterSpace(node_.space());
  node_.agent().Start();
  ASSERT_TRUE(Eventually([&] { return client_->connected(); }));
  EXPECT_EQ(PutBlocks(client_.get(), space_, keys_), 4U);
  EXPECT_EQ(GetBlocks(client_.get(), space_, keys_), 4U);
}

TEST_F(ClientFailureTest, OpenWaitsNoLongerThanConnectTimeoutForAStuckHandshake) {
  node_.agent().HangHandshakes(true);
  node_.agent().Start();
  EXPECT_LT(Took([&] { client_ = node_.OpenClient(); }), absl::Milliseconds(500) + kSlack);
  EXPECT_FALSE(client_->connected());
  node_.agent().HangHandshakes(false);
  EXPECT_TRUE(Eventually([&] { return client_->connected(); }));
}

TEST_F(ClientFailureTest, AStuckAgentIsAMissAtTheDeadline) {
  StartWithBlocks();
  node_.agent().HangCalls(FakeAgent::Hang::kAll);
  const absl::Duration took = Took([&] { EXPECT_TRUE(Onboard(absl::Milliseconds(100)).empty()); });
  EXPECT_GE(took, absl::Milliseconds(90));
  EXPECT_LT(took, absl::Milliseconds(100) + kSlack);
  EXPECT_EQ(client_->Stats().calls_failed, 1U);
}

TEST_F(ClientFailureTest, ASlowAgentIsAMissAtTheDeadline) {
  StartWithBlocks();
  node_.agent().SlowDown(absl::Milliseconds(200));
  EXPECT_TRUE(Onboard(absl::Milliseconds(50)).empty());
  EXPECT_EQ(Onboard(absl::Seconds(5)).size(), 4U);
}

TEST_F(ClientFailureTest, TheBreakerOpensAndCallsThenReturnAtOnce) {
  StartWithBlocks();
  OpenBreaker();
  const absl::Duration took = Took([&] {
    // Half-open looks like open to callers; only an answered probe admits them.
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(Onboard(absl::Seconds(10)).empty());
  });
  EXPECT_LT(took, kAtOnce);
  EXPECT_GE(client_->Stats().calls_skipped, 10U);
  EXPECT_TRUE(client_->connected());
}

TEST_F(ClientFailureTest, TheBreakerClosesWhenTheAgentAnswersAgain) {
  StartWithBlocks();
  OpenBreaker();
  node_.agent().Resume();
  EXPECT_TRUE(Eventually([&] { return client_->Stats().breaker == "closed"; }));
  EXPECT_EQ(GetBlocks(client_.get(), space_, keys_), 4U);
  EXPECT_EQ(client_->Stats().sessions, 1U);  // The session never ended.
}

// A stopped agent once cost an engine's scheduler, which waits at most 5 ms, the whole 5 ms 694
// times of 694: calls with timeouts under 10 ms never opened the breaker.
TEST_F(ClientFailureTest, AStuckAgentCostsShortCallsTheirWaitOnlyAFewTimes) {
  StartWithBlocks();
  node_.agent().HangCalls(FakeAgent::Hang::kAll);
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(Onboard(absl::Milliseconds(5)).empty());
  // Two would be enough (failures_to_open); one of them may have begun before the last answer.
  EXPECT_LE(client_->Stats().calls_failed, 4U);
  EXPECT_GE(client_->Stats().calls_skipped, 196U);
  EXPECT_TRUE(Eventually([&] { return client_->Stats().breaker_opened == 1; }));
  node_.agent().Resume();
  EXPECT_TRUE(Eventually([&] { return client_->Stats().breaker == "closed"; }));
  EXPECT_EQ(GetBlocks(client_.get(), space_, keys_), 4U);
}

// If every short call is too short for a busy agent, longer calls must still find their blocks.
TEST_F(ClientFailureTest, ShortCallsThatTimeOutDoNotShutOutLongerOnes) {
  StartWithBlocks();
  node_.agent().SlowDown(absl::Milliseconds(20));
  for (int i = 0; i < 10; ++i) {
    for (int k = 0; k < 5; ++k) EXPECT_TRUE(Onboard(absl::Milliseconds(2)).empty());
    EXPECT_EQ(Onboard(absl::Seconds(5)).size(), 4U);
  }
  EXPECT_EQ(client_->Stats().breaker_opened, 0U);
}

TEST_F(ClientFailureTest, AnAgentThatAnswersOnlyProbesOpensTheBreakerAgainAtOneFailure) {
  StartWithBlocks();
  node_.agent().HangCalls(FakeAgent::Hang::kAllButPing);
  const auto opened = [&] { return client_->Stats().breaker_opened; };
  while (opened() == 0) Onboard(absl::Milliseconds(30));
  const uint64_t before = client_->Stats().calls_failed;
  ASSERT_TRUE(Eventually([&] { return client_->Stats().breaker == "closed"; }));
  Onboard(absl::Milliseconds(30));
  EXPECT_EQ(opened(), 2U);
  EXPECT_EQ(client_->Stats().calls_failed, before + 1);
}

// A forked child had garbled the channel: each call of the parent was answered "UNKNOWN: Missing
// :authority header" for ever, while its session stayed up.
TEST_F(ClientFailureTest, AConnectionThatAnswersUnknownOrInternalIsMadeAnew) {
  StartWithBlocks();
  uint64_t sessions = 1;
  for (const absl::StatusCode code : {absl::StatusCode::kUnknown, absl::StatusCode::kInternal}) {
    const OnboardedBlocks hit = Onboard(absl::Seconds(5));
    node_.agent().BreakSessions(code);
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(Onboard(absl::Seconds(5)).empty());
    ++sessions;
    EXPECT_TRUE(Eventually([&] { return client_->Stats().sessions == sessions; }));
    EXPECT_TRUE(Eventually([&] { return Onboard(absl::Seconds(5)).size() == 4; }));
    EXPECT_FALSE(hit.valid());
  }
}

TEST_F(ClientFailureTest, AConnectionThatFailsSeveralTrialsIsMadeAnew) {
  StartWithBlocks();
  node_.agent().BreakSessions(absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Eventually([&] { return Onboard(absl::Seconds(5)).size() == 4; }));
  EXPECT_EQ(client_->Stats().sessions, 2U);
  EXPECT_GE(client_->Stats().breaker_opened, 5U);
}

// There is one session for each backoff of the breaker, not one for each call.
TEST_F(ClientFailureTest, AnAgentWhoseEveryConnectionIsGarbledIsNotMetAtFullRate) {
  StartWithBlocks();
  const MonotonicClock clock;
  const absl::Time start = clock.Now();
  uint64_t calls = 0;
  uint64_t broken = 0;
  for (uint64_t opened = 1; opened < 6; opened = client_->Stats().sessions) {
    if (std::exchange(broken, opened) != opened) {
      node_.agent().BreakSessions(absl::StatusCode::kUnknown);
    }
    Onboard(absl::Milliseconds(30));
    ++calls;
    ASSERT_LT(clock.Now() - start, absl::Seconds(20));
  }
  // The backoffs add up to at least half of 40, 80, 160, 200 and 200 ms, but a call that is
  // answered between two failures makes the next one short again.
  EXPECT_GE(clock.Now() - start, absl::Milliseconds(150));
  EXPECT_GT(calls, 6U);
}

TEST_F(ClientFailureTest, ReleasingNeverWaitsForAStuckAgent) {
  StartWithBlocks();
  OnboardedBlocks hit = Onboard(absl::Seconds(5));
  ReservedBlocks reserved = *client_->Reserve(space_, TestKeys(9, 2));
  node_.agent().HangCalls(FakeAgent::Hang::kAll);
  EXPECT_LT(Took([&] {
              hit.Release();
              reserved.Release();
            }),
            kAtOnce);
  node_.agent().Resume();
  EXPECT_TRUE(Eventually([&] {
    const testing::FakeAgentCounts counts = node_.agent().Counts();
    return counts.leases == 0 && counts.reservations == 0;
  }));
}

TEST_F(ClientFailureTest, WhatACallTookAlongThatFailsIsReleasedAfterAll) {
  StartWithBlocks();
  OnboardedBlocks hit = Onboard(absl::Seconds(5));
  ASSERT_EQ(node_.agent().Counts().leases, keys_.size());
  node_.agent().HangCalls(FakeAgent::Hang::kAll);
  hit.Release();
  // This call carries the releases of the leases, and the agent never reads it.
  EXPECT_TRUE(Onboard(absl::Milliseconds(100)).empty());
  // Waits until the agent has dropped the call, which it might otherwise read and lease blocks for.
  EXPECT_TRUE(Eventually([&] { return node_.agent().Counts().hanging == 0; }));
  node_.agent().Resume();
  EXPECT_TRUE(Eventually([&] { return node_.agent().Counts().leases == 0; }));
}

TEST_F(ClientFailureTest, AKilledAgentVoidsLeasesAndTheirBytesStayReadable) {
  StartWithBlocks();
  const OnboardedBlocks hit = Onboard(absl::Seconds(5));
  ReservedBlocks reserved = *client_->Reserve(space_, TestKeys(9, 2));
  EXPECT_TRUE(hit.valid());
  node_.agent().Kill();
  EXPECT_FALSE(hit.valid());
  for (size_t i = 0; i < hit.size(); ++i) {
    EXPECT_TRUE(testing::HoldsBlock(7, keys_[i], hit.bytes(i)));
  }
  std::ranges::fill(reserved.slot(0), std::byte{1});  // Has no reader, and must not fault.
  EXPECT_EQ(reserved.Commit(), 0U);
  EXPECT_TRUE(Onboard(absl::Seconds(10)).empty());
}

TEST_F(ClientFailureTest, ACallUnderWayEndsWhenTheAgentIsKilled) {
  StartWithBlocks();
  node_.agent().HangCalls(FakeAgent::Hang::kAll);
  absl::Duration took;
  std::thread worker(
      [&] { took = Took([&] { EXPECT_TRUE(Onboard(absl::Seconds(30)).empty()); }); });
  EXPECT_TRUE(Eventually([&] { return client_->Stats().calls >= 4; }));
  node_.agent().Kill();
  worker.join();
  EXPECT_LT(took, absl::Seconds(10));
}

TEST_F(ClientFailureTest, ARestartedAgentServesTheSameClientAndOldGrantsStayVoid) {
  StartWithBlocks();
  OnboardedBlocks hit = Onboard(absl::Seconds(5));
  ReservedBlocks reserved = *client_->Reserve(space_, TestKeys(9, 2));
  node_.agent().Kill();
  node_.agent().Start();
  ASSERT_TRUE(Eventually([&] { return client_->connected(); }));
  // The new agent has no blocks, but knows the spaces.
  EXPECT_TRUE(Onboard(absl::Seconds(5)).empty());
  EXPECT_EQ(PutBlocks(client_.get(), space_, keys_), 4U);
  const OnboardedBlocks fresh = Onboard(absl::Seconds(5));
  ASSERT_EQ(fresh.size(), 4U);

  EXPECT_FALSE(hit.valid());
  EXPECT_EQ(reserved.Commit(), 0U);
  EXPECT_EQ(client_->Stats().sessions, 2U);
  // The new agent numbers from 1 again: releasing the old leases must not end new ones.
  hit.Release();
  EXPECT_TRUE(client_->RegisterSpace(node_.space()).ok());
  {
    const OnboardedBlocks flushed = Onboard(absl::Seconds(5));
  }
  EXPECT_TRUE(Eventually([&] { return node_.agent().Counts().leases == 4; }));
  EXPECT_TRUE(fresh.valid());
}

TEST_F(ClientFailureTest, ASessionTheAgentForgotIsOpenedAgain) {
  StartWithBlocks();
  const OnboardedBlocks hit = Onboard(absl::Seconds(5));
  node_.agent().ForgetSessions();
  EXPECT_TRUE(Onboard(absl::Seconds(5)).empty());
  EXPECT_TRUE(Eventually([&] { return client_->Stats().sessions == 2; }));
  EXPECT_EQ(GetBlocks(client_.get(), space_, keys_), 4U);
  EXPECT_FALSE(hit.valid());
}

TEST_F(ClientFailureTest, ALeaseIsNotValidPastItsDeadline) {
  FakeNode node({.lease = absl::Milliseconds(50)});
  node.agent().Start();
  const std::unique_ptr<Client> client = node.OpenClient();
  const SpaceHandle space = *client->RegisterSpace(node.space());
  PutBlocks(client.get(), space, keys_);
  const OnboardedBlocks hit = *client->Onboard(space, keys_);
  ASSERT_EQ(hit.size(), 4U);
  EXPECT_TRUE(Eventually([&] { return !hit.valid(); }));
  EXPECT_TRUE(client->connected());
}

TEST_F(ClientFailureTest, GrantsMayOutliveTheirClient) {
  StartWithBlocks();
  OnboardedBlocks hit = Onboard(absl::Seconds(5));
  ReservedBlocks reserved = *client_->Reserve(space_, TestKeys(9, 2));
  client_.reset();
  EXPECT_FALSE(hit.valid());
  EXPECT_TRUE(testing::HoldsBlock(7, keys_[0], hit.bytes(0)));
  EXPECT_EQ(reserved.Commit(), 0U);
}

TEST_F(ClientFailureTest, AVersionMismatchSaysBothVersions) {
  node_.agent().SpeakVersions(7, 6);
  node_.agent().Start();
  client_ = node_.OpenClient();
  EXPECT_FALSE(client_->connected());
  const std::string error = client_->Stats().last_error;
  EXPECT_NE(error.find("session versions 6 to 7"), std::string::npos) << error;
  EXPECT_NE(error.find("this client 1 to 1"), std::string::npos) << error;
}

TEST_F(ClientFailureTest, AnAgentOfTheNextVersionIsSpokenToInOurs) {
  node_.agent().SpeakVersions(2, 1);
  node_.agent().Start();
  client_ = node_.OpenClient();
  EXPECT_TRUE(client_->connected()) << client_->Stats().last_error;
  const SpaceHandle space = *client_->RegisterSpace(node_.space());
  EXPECT_EQ(PutBlocks(client_.get(), space, TestKeys(1, 2)), 2U);
}

TEST_F(ClientFailureTest, AnAgentThatLaysOutVersionOneOtherwiseIsRefusedWithBothLayouts) {
  node_.agent().LayOutAs(0x1234);
  node_.agent().Start();
  client_ = node_.OpenClient();
  EXPECT_FALSE(client_->connected());
  const std::string error = client_->Stats().last_error;
  EXPECT_NE(error.find("version 1 as 0000000000001234"), std::string::npos) << error;
  EXPECT_NE(error.find(wire::LayoutText(wire::LayoutDigest(1))), std::string::npos) << error;
}

TEST_F(ClientFailureTest, TheReasonForBeingUnconnectedIsLoggedOnce) {
  node_.agent().SpeakVersions(7, 7);
  node_.agent().Start();
  ::testing::internal::CaptureStderr();
  client_ = node_.OpenClient();
  // Leaves time for several tries.
  absl::SleepFor(absl::Milliseconds(200));
  client_.reset();
  const std::string log = ::testing::internal::GetCapturedStderr();
  const size_t first = log.find("version mismatch");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("version mismatch", first + 1), std::string::npos) << log;
}

TEST_F(ClientFailureTest, AWrongSecretIsRefused) {
  node_.agent().Start();
  ClientOptions options = node_.client_options();
  options.tenant_secret = "not the one";
  client_ = *Client::Open(options);
  EXPECT_FALSE(client_->connected());
  EXPECT_NE(client_->Stats().last_error.find("knows no tenant \"default\""), std::string::npos);
}

TEST_F(ClientFailureTest, ARefusedSessionIsTriedAgain) {
  node_.agent().AnswerSessions(wire::WelcomeCode::kTooManySessions);
  node_.agent().Start();
  client_ = node_.OpenClient();
  EXPECT_NE(client_->Stats().last_error.find("no session free"), std::string::npos);
  node_.agent().AnswerSessions(wire::WelcomeCode::kOk);
  EXPECT_TRUE(Eventually([&] { return client_->connected(); }));
}

TEST_F(ClientFailureTest, ThreadsShareAClientWhileItsAgentComesAndGoes) {
  StartWithBlocks();
  std::atomic<bool> stop = false;
  std::vector<std::thread> workers;
  for (uint64_t w = 0; w < 3; ++w) {
    workers.emplace_back([&, w] {
      const std::vector<EngineKey> keys = TestKeys(100 * w, 4);
      while (!stop) {
        PutBlocks(client_.get(), space_, keys);
        GetBlocks(client_.get(), space_, keys);  // Aborts on a wrong byte.
      }
    });
  }
  for (int i = 0; i < 3; ++i) {
    const uint64_t sessions = client_->Stats().sessions;
    node_.agent().Kill();
    node_.agent().Start();
    EXPECT_TRUE(Eventually([&] { return client_->Stats().sessions > sessions; }));
    const uint64_t blocks = client_->Stats().onboarded_blocks;
    EXPECT_TRUE(Eventually([&] { return client_->Stats().onboarded_blocks > blocks; }));
  }
  stop = true;
  for (std::thread& worker : workers) worker.join();
}

}  // namespace
}  // namespace kvtier
