// Tests onboards in parts on a real agent: blocks in host memory come before blocks on disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

constexpr Blocks kPrefix = {.first = 100, .count = 16};
constexpr size_t kWarm = 5;  // Leading blocks of the run in host memory.
constexpr absl::Duration kPatience = absl::Seconds(20);

// Results of one call, whose leases stay as long as this object.
struct CallResults {
  std::vector<OnboardedPart> parts;
  std::vector<OnboardedInParts> ends;
};

class OnboardPartsNodeTest : public ::testing::Test {
 protected:
  // Puts the prefix on disk, and its leading kWarm blocks in host memory, too.
  void SetUp() override {
    ASSERT_EQ(worker_.Put(kPrefix), kPrefix.count);
    ASSERT_TRUE(agent_.AwaitOffloaded());
    ASSERT_EQ(agent_.Evict(Tier::kHost).evicted_blocks(), kPrefix.count);
    ASSERT_EQ(worker_.Get({kPrefix.first, kWarm}).size(), kWarm);
  }
  CallResults Onboard(std::span<const KeySequence> sequences) {
    CallResults results;
    absl::Notification ended;
    EXPECT_TRUE(worker_.client()
                    .SubmitOnboardParts(
                        sequences, {.timeout = kPatience},
                        [&](OnboardedPart part) { results.parts.push_back(std::move(part)); },
                        [&](std::vector<OnboardedInParts> ends) {
                          results.ends = std::move(ends);
                          ended.Notify();
                        })
                    .ok());
    ended.WaitForNotification();
    return results;
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent("node-a");
  TestWorker worker_{{.socket_dir = agent_.socket_dir()}};
};

TEST_F(OnboardPartsNodeTest, ARunComesInItsOrderAndWhatIsInHostMemoryFirst) {
  const std::vector<EngineKey> keys = worker_.KeysOf(kPrefix);
  const KeySequence run{.space = worker_.space(), .keys = keys};
  CallResults results = Onboard(std::span(&run, 1));
  ASSERT_GE(results.parts.size(), 2);
  EXPECT_EQ(results.parts[0].blocks.size(), kWarm) << "no load ends before the call has begun";
  size_t next = 0;
  for (const OnboardedPart& part : results.parts) {
    EXPECT_TRUE(part.blocks.valid());
    EXPECT_TRUE(worker_.Proves(part.blocks, kPrefix.first + next));
    for (size_t i = 0; i < part.blocks.size(); ++i, ++next) {
      EXPECT_EQ(part.blocks.key_index(i), next);
      EXPECT_EQ(part.blocks.source(i), next < kWarm ? BlockSource::kHost : BlockSource::kDisk);
    }
  }
  EXPECT_EQ(next, kPrefix.count);
  EXPECT_EQ(results.ends[0].blocks, kPrefix.count);
  EXPECT_EQ(results.ends[0].missed, MissReason::kNone);
  EXPECT_TRUE(Await(kPatience, [&] { return agent_.Status().leases() == kPrefix.count; }));
  results.parts.clear();
  EXPECT_TRUE(Await(kPatience, [&] { return agent_.Status().leases() == 0; }));
}

TEST_F(OnboardPartsNodeTest, ASetComesAroundItsHolesAndEachSequenceEnds) {
  std::vector<EngineKey> keys = worker_.KeysOf(kPrefix);
  std::swap(keys.front(), keys.back());  // The first is on disk.
  const std::vector<EngineKey> nowhere = worker_.KeysOf({9000, 2});
  keys.push_back(nowhere[0]);
  const std::vector<KeySequence> sequences = {
      {.space = worker_.space(), .keys = keys, .is_set = true},
      {.space = worker_.space(), .keys = nowhere}};
  const CallResults results = Onboard(sequences);
  ASSERT_GE(results.parts.size(), 2);
  EXPECT_EQ(results.parts[0].blocks.size(), kWarm);
  std::vector<size_t> times(keys.size());  // Number of times that each key came.
  for (const OnboardedPart& part : results.parts) {
    EXPECT_EQ(part.sequence, 0);
    for (size_t i = 0; i < part.blocks.size(); ++i) ++times[part.blocks.key_index(i)];
  }
  std::vector<size_t> once(keys.size(), 1);
  once.back() = 0;
  EXPECT_EQ(times, once);
  EXPECT_EQ(results.ends[0].blocks, kPrefix.count);
  EXPECT_EQ(results.ends[0].missed, MissReason::kAbsent);
  EXPECT_EQ(results.ends[1].blocks, 0);
  EXPECT_EQ(results.ends[1].missed, MissReason::kAbsent);
}

TEST_F(OnboardPartsNodeTest, AWorkerThatIsGoneLeavesNoLease) {
  {
    TestWorker other({.socket_dir = agent_.socket_dir()});
    ASSERT_TRUE(other.AwaitConnected());
    const std::vector<EngineKey> keys = other.KeysOf(kPrefix);
    const KeySequence run{.space = other.space(), .keys = keys};
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(other.client()
                      .SubmitOnboardParts(
                          std::span(&run, 1), {.timeout = kPatience}, [](OnboardedPart) {},
                          [](std::vector<OnboardedInParts>) {})
                      .ok());
    }
  }
  // Loads that those calls began go on after the session's end, and pin the slots that they fill.
  const auto nothing_held = [&] {
    return agent_.Status().leases() == 0 && agent_.TierStatus(Tier::kHost).pinned_bytes() == 0;
  };
  EXPECT_TRUE(Await(kPatience, nothing_held));
  EXPECT_EQ(worker_.Get(kPrefix).size(), kPrefix.count);
  EXPECT_TRUE(Await(kPatience, nothing_held));
}

}  // namespace
}  // namespace kvtier::testing
