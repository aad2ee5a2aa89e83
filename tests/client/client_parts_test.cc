// Tests onboards in parts: each part as it comes, then one end.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/blocks.h"
#include "tests/testing/fake_node.h"

namespace kvtier {
namespace {

using ::testing::ElementsAre;
using testing::Eventually;
using testing::FakeAgent;
using testing::FakeAgentOptions;
using testing::FakeNode;
using testing::PutBlocks;
using testing::TestKeys;
using Fault = FakeAgentOptions::PartsFault;

// Told records the callbacks of one call.
class Told {
 public:
  auto OnPart() {
    return [this](OnboardedPart part) {
      absl::MutexLock lock(&mu_);
      EXPECT_FALSE(has_ended_);
      parts_.push_back(std::move(part));
    };
  }
  auto Done() {
    return [this](std::vector<OnboardedInParts> ends) {
      absl::MutexLock lock(&mu_);
      EXPECT_FALSE(has_ended_);
      ends_ = std::move(ends);
      has_ended_ = true;
    };
  }
  std::vector<OnboardedInParts> AwaitEnd() {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&has_ended_));
    return ends_;
  }
  size_t parts() {
    absl::MutexLock lock(&mu_);
    return parts_.size();
  }
  bool has_ended() {
    absl::MutexLock lock(&mu_);
    return has_ended_;
  }
  // Returns the keys' places, in the order in which their blocks came.
  std::vector<size_t> PlacesOf(size_t sequence) {
    absl::MutexLock lock(&mu_);
    std::vector<size_t> places;
    for (const OnboardedPart& part : parts_) {
      if (part.sequence != sequence) continue;
      for (size_t i = 0; i < part.blocks.size(); ++i) places.push_back(part.blocks.key_index(i));
    }
    return places;
  }
  // Returns whether every block belongs to the key of its place, and is valid.
  bool Holds(size_t sequence, std::span<const EngineKey> keys) {
    absl::MutexLock lock(&mu_);
    return std::ranges::all_of(parts_, [&](const OnboardedPart& part) {
      if (part.sequence != sequence) return true;
      for (size_t i = 0; i < part.blocks.size(); ++i) {
        if (!testing::HoldsBlock(7, keys[part.blocks.key_index(i)], part.blocks.bytes(i))) {
          return false;
        }
      }
      return part.blocks.valid() && part.blocks.missed() == MissReason::kNone;
    });
  }
  void Forget() {
    absl::MutexLock lock(&mu_);
    parts_.clear();
  }

 private:
  absl::Mutex mu_;
  std::vector<OnboardedPart> parts_;
  std::vector<OnboardedInParts> ends_;
  bool has_ended_ = false;
};

class ClientPartsTest : public ::testing::Test {
 protected:
  void Start(FakeAgentOptions options = {}) {
    node_ = std::make_unique<FakeNode>(options);
    node_->agent().Start();
    client_ = node_->OpenClient();
    space_ = *client_->RegisterSpace(node_->space());
    ASSERT_EQ(PutBlocks(client_.get(), space_, keys_), keys_.size());
  }
  absl::Status Submit(std::span<const KeySequence> sequences, Told* told,
                      const OnboardOptions& options = {.timeout = absl::Seconds(20)}) {
    return client_->SubmitOnboardParts(sequences, options, told->OnPart(), told->Done());
  }
  absl::Status SubmitRun(Told* told,
                         const OnboardOptions& options = {.timeout = absl::Seconds(20)}) {
    const KeySequence run{.space = space_, .keys = keys_};
    return Submit(std::span(&run, 1), told, options);
  }

  const std::vector<EngineKey> keys_ = TestKeys(1, 5);
  std::unique_ptr<FakeNode> node_;
  Told told_;  // Declared before the client, whose callbacks use it.
  std::unique_ptr<Client> client_;
  SpaceHandle space_;
};

TEST_F(ClientPartsTest, APartIsHandedOverWhileTheRestIsWaitedFor) {
  Start();
  node_->agent().HangCalls(FakeAgent::Hang::kParts);
  ASSERT_TRUE(SubmitRun(&told_).ok());
  ASSERT_TRUE(Eventually([&] { return told_.parts() == 1; }));
  EXPECT_FALSE(told_.has_ended());
  EXPECT_THAT(told_.PlacesOf(0), ElementsAre(0, 1));
  node_->agent().Resume();
  const std::vector<OnboardedInParts> ends = told_.AwaitEnd();
  ASSERT_EQ(ends.size(), 1);
  EXPECT_EQ(ends[0].blocks, 5);
  EXPECT_EQ(ends[0].missed, MissReason::kNone);
  EXPECT_EQ(told_.parts(), 3);
  EXPECT_THAT(told_.PlacesOf(0), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_TRUE(told_.Holds(0, keys_));
  EXPECT_EQ(node_->agent().Counts().leases, 5);
  told_.Forget();
  EXPECT_TRUE(Eventually([&] { return node_->agent().Counts().leases == 0; }));
}

TEST_F(ClientPartsTest, SequencesHavePartsOfTheirOwnAndEndTogether) {
  Start();
  std::vector<EngineKey> mixed = TestKeys(4, 4);  // Blocks 6 and 7 do not exist.
  std::swap(mixed[1], mixed[3]);
  const std::vector<EngineKey> nowhere = TestKeys(900, 2);
  const std::vector<KeySequence> sequences = {
      {.space = space_, .keys = keys_},
      {.space = space_, .keys = mixed, .is_set = true},
      {.space = space_, .keys = nowhere},
  };
  ASSERT_TRUE(Submit(sequences, &told_).ok());
  const std::vector<OnboardedInParts> ends = told_.AwaitEnd();
  ASSERT_EQ(ends.size(), 3);
  EXPECT_THAT(told_.PlacesOf(0), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(told_.PlacesOf(1), ElementsAre(0, 3));
  EXPECT_TRUE(told_.Holds(0, keys_) && told_.Holds(1, mixed));
  EXPECT_EQ(ends[1].blocks, 2);
  EXPECT_EQ(ends[1].missed, MissReason::kAbsent);
  EXPECT_EQ(ends[2].blocks, 0);
  EXPECT_EQ(ends[2].missed, MissReason::kAbsent);
}

TEST_F(ClientPartsTest, StatisticsCountItAsAnOnboard) {
  Start();
  const std::vector<EngineKey> longer = TestKeys(1, 7);
  const KeySequence run{.space = space_, .keys = longer};
  ASSERT_TRUE(Submit(std::span(&run, 1), &told_).ok());
  told_.AwaitEnd();
  const ClientStats stats = client_->Stats();
  EXPECT_EQ(stats.onboarded_blocks, 5);
  EXPECT_EQ(stats.onboarded_bytes, 5 * FakeNode::kBlockBytes);
  EXPECT_EQ(stats.onboarded_from[static_cast<size_t>(BlockSource::kHost)], 5);
  EXPECT_EQ(stats.missed_blocks, 2);
  EXPECT_EQ(stats.missed_because[static_cast<size_t>(MissReason::kAbsent)], 2);
  EXPECT_EQ(stats.latencies.at("onboard_parts").calls, 1);
}

TEST_F(ClientPartsTest, WhatHasNotComeByTheTimeoutIsMissingAndWhatCameStays) {
  Start();
  node_->agent().HangCalls(FakeAgent::Hang::kParts);
  ASSERT_TRUE(SubmitRun(&told_, {.timeout = absl::Milliseconds(200)}).ok());
  const std::vector<OnboardedInParts> ends = told_.AwaitEnd();
  EXPECT_EQ(ends[0].blocks, 2);
  EXPECT_EQ(ends[0].missed, MissReason::kDeadline);
  EXPECT_TRUE(told_.Holds(0, keys_));
  const ClientStats stats = client_->Stats();
  EXPECT_EQ(stats.missed_because[static_cast<size_t>(MissReason::kDeadline)], 3);
  EXPECT_EQ(stats.calls_failed, 1);
}

TEST_F(ClientPartsTest, NoTimeTakesWhatIsHere) {
  Start({.part_blocks = 64});
  ASSERT_TRUE(SubmitRun(&told_, {.timeout = absl::ZeroDuration()}).ok());
  told_.AwaitEnd();
  EXPECT_LE(told_.parts(), 1);
}

TEST_F(ClientPartsTest, WithoutAnAgentThereIsNoPartAndAMissForEachSequence) {
  Start();
  node_->agent().Kill();
  ASSERT_TRUE(Eventually([&] { return !client_->connected(); }));
  ASSERT_TRUE(SubmitRun(&told_).ok());
  const std::vector<OnboardedInParts> ends = told_.AwaitEnd();
  ASSERT_EQ(ends.size(), 1);
  EXPECT_EQ(ends[0].blocks, 0);
  EXPECT_EQ(ends[0].missed, MissReason::kUnreachable);
  EXPECT_EQ(told_.parts(), 0);
}

TEST_F(ClientPartsTest, AnAgentThatDiesEndsItAndWhatCameIsNotValid) {
  Start();
  node_->agent().HangCalls(FakeAgent::Hang::kParts);
  ASSERT_TRUE(SubmitRun(&told_).ok());
  ASSERT_TRUE(Eventually([&] { return told_.parts() == 1; }));
  node_->agent().Kill();
  const std::vector<OnboardedInParts> ends = told_.AwaitEnd();
  EXPECT_EQ(ends[0].blocks, 2);
  EXPECT_EQ(ends[0].missed, MissReason::kUnreachable);
  EXPECT_FALSE(told_.Holds(0, keys_));
}

TEST_F(ClientPartsTest, ASpaceThatTheAgentDoesNotKnowIsAMiss) {
  Start();
  node_->agent().HangCalls(FakeAgent::Hang::kAll);  // Hangs its registration, too.
  SpaceSpec other = node_->space();
  other.lora = "other";
  const SpaceHandle unknown = *client_->RegisterSpace(other);
  const KeySequence run{.space = unknown, .keys = keys_};
  ASSERT_TRUE(Submit(std::span(&run, 1), &told_).ok());
  EXPECT_EQ(told_.AwaitEnd()[0].missed, MissReason::kSpaceRefused);
  EXPECT_EQ(told_.parts(), 0);
}

TEST_F(ClientPartsTest, WhatCannotBeAskedIsNamedAndNobodyIsCalledBack) {
  Start();
  const absl::Status gpu = SubmitRun(&told_, {.target = OnboardTarget::kGpu});
  EXPECT_EQ(gpu.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(gpu.message()), ::testing::HasSubstr("target"));
  EXPECT_EQ(Submit({}, &told_).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SubmitRun(&told_, {.timeout = absl::Seconds(-1)}).code(),
            absl::StatusCode::kInvalidArgument);
  client_.reset();
  EXPECT_FALSE(told_.has_ended());
}

TEST_F(ClientPartsTest, TheDestructorCancelsBetweenTwoPartsAndWaitsForTheEnd) {
  Start();
  node_->agent().HangCalls(FakeAgent::Hang::kParts);
  ASSERT_TRUE(SubmitRun(&told_).ok());
  ASSERT_TRUE(Eventually([&] { return told_.parts() == 1; }));
  client_.reset();
  EXPECT_TRUE(told_.has_ended());
  EXPECT_EQ(told_.AwaitEnd()[0].missed, MissReason::kUnreachable);
}

TEST_F(ClientPartsTest, ItHasAPlaceAmongTheCallsUnderWayUntilItsEnd) {
  Start();
  node_->agent().HangCalls(FakeAgent::Hang::kParts);
  std::vector<std::unique_ptr<Told>> all;
  absl::Status status;
  do {
    all.push_back(std::make_unique<Told>());
    status = SubmitRun(all.back().get());
  } while (status.ok() && all.size() <= Client::kMaxSubmitted);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(all.size(), Client::kMaxSubmitted + 1);
  node_->agent().Resume();
  all.pop_back();
  for (const auto& told : all) told->AwaitEnd();
  EXPECT_TRUE(SubmitRun(&told_).ok());
  told_.AwaitEnd();
  client_.reset();  // Destroyed before the objects that its callbacks use.
}

TEST_F(ClientPartsTest, BlocksBehindAHoleOfARunAreGivenBack) {
  Start({.parts_fault = Fault::kBackwards});
  ASSERT_TRUE(SubmitRun(&told_).ok());
  EXPECT_EQ(told_.AwaitEnd()[0].blocks, 2);
  EXPECT_THAT(told_.PlacesOf(0), ElementsAre(0, 1));
  EXPECT_TRUE(Eventually([&] { return node_->agent().Counts().leases == 2; }));
}

TEST_F(ClientPartsTest, BlocksOfASetThatComeTwiceAreGivenBack) {
  Start({.parts_fault = Fault::kTwice});
  const KeySequence set{.space = space_, .keys = keys_, .is_set = true};
  ASSERT_TRUE(Submit(std::span(&set, 1), &told_).ok());
  EXPECT_EQ(told_.AwaitEnd()[0].blocks, 5);
  EXPECT_THAT(told_.PlacesOf(0), ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(ClientPartsTest, AStreamThatStopsShortIsNoAnswer) {
  Start({.parts_fault = Fault::kNoEnd});
  ASSERT_TRUE(SubmitRun(&told_).ok());
  EXPECT_EQ(told_.AwaitEnd()[0].blocks, 5);
  EXPECT_EQ(client_->Stats().calls_refused, 1);
}

TEST_F(ClientPartsTest, ACallbackMaySubmitTheNextCall) {
  Start();
  Told next;
  std::atomic<bool> submitted = false;
  const KeySequence run{.space = space_, .keys = keys_};
  ASSERT_TRUE(client_
                  ->SubmitOnboardParts(
                      std::span(&run, 1), {},
                      [&](OnboardedPart) {
                        if (submitted.exchange(true)) return;
                        EXPECT_TRUE(SubmitRun(&next).ok());
                      },
                      told_.Done())
                  .ok());
  told_.AwaitEnd();
  EXPECT_EQ(next.AwaitEnd()[0].blocks, 5);
  client_.reset();
}

}  // namespace
}  // namespace kvtier
