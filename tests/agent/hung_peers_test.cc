// Tests many peers that hang (they accept a fetch and send nothing, while their heartbeats go on)
// beside one that is well: what an asker learns of them reaches its next question, so that the
// coordinator names the one that is well.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "tests/agent/agent_rig.h"
#include "tests/agent/scripted_peers.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::KnowingCoordinator;
using testing::kSecond;
using testing::ScriptedPeers;

constexpr int kHung = 10;

class HungPeersTest : public ::testing::Test {
 protected:
  HungPeersTest()
      : rig_({.slots = 64, .disk = false, .transport = &peers_, .coordinator = &coordinator_}) {
    peers_.rig = &rig_;
    peers_.blocks = 40;
    coordinator_.holders.clear();
    for (int i = 0; i < kHung; ++i) {
      coordinator_.holders.push_back(Hung(i));
      peers_[Hung(i)].hangs = true;
    }
    coordinator_.holders.push_back(kSecond);
  }
  static std::string Hung(int i) { return absl::StrCat("hung-", i, ":1"); }
  // Asks for one block more; returns whether it came. Expects an answer within `budget`.
  bool Get(absl::Duration budget) {
    const absl::Time start = rig_.executor.Now();
    const size_t hits = rig_.Hits(rig_.session, ++asked_, 1, budget);
    took_ = rig_.executor.Now() - start;
    EXPECT_LE(took_, budget);
    return hits == 1;
  }
  int HungFetches() {
    int fetches = 0;
    for (int i = 0; i < kHung; ++i) fetches += peers_[Hung(i)].fetches;
    return fetches;
  }

  KnowingCoordinator coordinator_;
  ScriptedPeers peers_;
  AgentRig rig_;
  uint64_t asked_ = 0;
  absl::Duration took_;  // Duration of the last Get().
};

// Once, 0 of 20 blocks came, each request at its full deadline: only the four that were named first
// were ever asked.
TEST_F(HungPeersTest, OneRequestWithTimeEnoughFindsTheHealthyHolderBehindTen) {
  EXPECT_TRUE(Get(absl::Seconds(2)));
  EXPECT_LE(took_, kHung * kMinPeerSilence + absl::Milliseconds(10));
  EXPECT_EQ(HungFetches(), kHung);
  for (int i = 0; i < 19; ++i) {
    EXPECT_TRUE(Get(absl::Seconds(2)));
    EXPECT_LE(took_, absl::Milliseconds(10)) << "the coordinator was told whom it avoids";
  }
  EXPECT_EQ(HungFetches(), kHung);
}

// A request of 100 ms has time to try five holders or so.
TEST_F(HungPeersTest, RequestsWithLittleTimeLearnItTogether) {
  constexpr int kLearning = 3;  // Requests that may miss, at most.
  int missed = 0;
  for (int i = 0; i < 20; ++i) missed += Get(absl::Milliseconds(100)) ? 0 : 1;
  EXPECT_LE(missed, kLearning);
}

// Each of them is forgotten before the last one is known, unless only one is tried again at a time.
TEST_F(HungPeersTest, RequestsThatComeSeldomLearnItTooInTheEnd) {
  int late = 0;
  for (int i = 0; i < 40; ++i) {
    const bool came = Get(absl::Milliseconds(60));
    if (i >= 20) late += came ? 0 : 1;
    rig_.Pass(kPeerAvoidance + absl::Seconds(1));
  }
  EXPECT_LE(late, 4) << "now and then one of them is tried again";
}

TEST_F(HungPeersTest, WhereAllHangOneThatIsWellAgainIsFound) {
  coordinator_.holders.pop_back();
  EXPECT_FALSE(Get(absl::Seconds(1)));
  rig_.Pass(absl::Milliseconds(1));
  EXPECT_EQ(rig_.agent->flows().fetcher.standings().avoided(), static_cast<size_t>(kHung));
  peers_[Hung(7)].hangs = false;
  int missed = 0;
  while (!Get(absl::Seconds(1))) ASSERT_LT(++missed, 3);
  EXPECT_TRUE(Get(absl::Seconds(1)));
  EXPECT_LE(took_, absl::Milliseconds(10));
}

TEST_F(HungPeersTest, NobodyIsAskedTwiceForABlockInOneRequest) {
  coordinator_.holders.pop_back();
  EXPECT_FALSE(Get(absl::Seconds(5)));
  for (int i = 0; i < kHung; ++i) EXPECT_EQ(peers_[Hung(i)].fetches, 1) << i;
}

}  // namespace
}  // namespace kvtier
