// Tests shares of host memory by a night of traffic. At three in the morning one conversation of
// 50,000 tokens takes the memory, and without shares the hits of all others are gone. With shares
// it may take only memory that others do not use, and they keep their hits.
//
// The numbers are scaled to a test: a block of 16 tokens has 4 KiB instead of 8 MB (25 GB for
// 50,000 tokens of a model of 32 layers of 4,096 in fp16). So the conversation has 3,125 blocks of
// a node's 4,608.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/eviction_policy.h"
#include "tests/agent/agent_rig.h"
#include "tests/testing/patience.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::AgentRig;

constexpr uint64_t kShare = 1536;        // Blocks that each tenant is guaranteed.
constexpr uint64_t kBlocksPerTurn = 25;  // 400 tokens.
constexpr uint64_t kTurns = 190;         // Up to 76,000 tokens.
constexpr uint64_t kAskedPerTurn = 8;    // Conversations that each other tenant asks for.
constexpr uint64_t kConversationBlocks = 20;
constexpr uint64_t kAsleep = 12;   // Conversations that the others have in the evening.
constexpr uint64_t kAwake = 72;    // Conversations from kMorning on: most of their share.
constexpr uint64_t kMorning = 90;  // Turn in which the others wake, at 36,000 tokens.

enum class Night {
  kControl,   // The conversation stays inside its tenant's share.
  kShares,    // The conversation grows, and each tenant has a share.
  kNoShares,  // The conversation grows, and all are one tenant, as if there were no shares.
};

struct Hits {
  uint64_t asked = 0;
  uint64_t hit = 0;
  double ratio() const { return static_cast<double>(hit) / static_cast<double>(asked); }
};

class NightRun {
 public:
  NightRun(Night night, EvictionPolicy order, uint64_t seed)
      : night_(night),
        rig_({.slots = kShare,
              .third_tenant = true,
              .eviction = {.host = order},
              .disk = false,
              .host_memory = HostMemory::kMoving}),
        random_(seed) {
    for (size_t i = 0; i < sessions_.size(); ++i) {
      sessions_[i] = rig_.Open(night == Night::kNoShares ? 0 : i);
    }
  }

  // Returns the hits of the two other tenants, counted from the turn in which they have asked once
  // for all that they need.
  std::array<Hits, 2> Run() {
    for (uint64_t turn = 1; turn <= kTurns; ++turn) {
      uint64_t blocks = turn * kBlocksPerTurn;
      if (night_ == Night::kControl) blocks = std::min(blocks, kShare / 2);
      Get(0, 0, blocks);
      const bool awake = turn >= kMorning;
      for (size_t tenant = 1; tenant < sessions_.size(); ++tenant) {
        for (uint64_t i = 0; i < kAskedPerTurn; ++i) {
          const uint64_t conversation = random_() % (awake ? kAwake : kAsleep);
          const uint64_t first = tenant * 1'000'000 + conversation * 1000;
          const uint64_t hit = Get(tenant, first, kConversationBlocks);
          if (turn < kMorning + kWarmTurns) continue;
          hits_[tenant - 1].asked += kConversationBlocks;
          hits_[tenant - 1].hit += hit;
        }
      }
      rig_.Pass(absl::Seconds(10));
    }
    rig_.agent->Audit();
    return hits_;
  }

  Agent& agent() { return *rig_.agent; }

 private:
  // Turns in which the others ask for nearly all of their conversations.
  static constexpr uint64_t kWarmTurns = 40;

  // Asks for a prefix and puts the blocks that were missing; returns how many were there.
  uint64_t Get(size_t tenant, uint64_t first, uint64_t blocks) {
    const uint64_t hit = rig_.Hits(sessions_[tenant], first, blocks);
    std::optional<EngineKey> parent;
    if (hit > 0) parent = testing::TestEngineKey(first + hit - 1);
    if (hit < blocks) rig_.Put(sessions_[tenant], first + hit, blocks - hit, parent);
    return hit;
  }

  const Night night_;
  AgentRig rig_;
  std::mt19937_64 random_;
  std::array<SessionId, 3> sessions_{};
  std::array<Hits, 2> hits_{};
};

// The parameter is the order of eviction of host memory.
class ThreeInTheMorningTest : public ::testing::TestWithParam<EvictionPolicy> {};

TEST_P(ThreeInTheMorningTest, TheOthersKeepTheirHitsWhateverOneThreadGrowsTo) {
  if (testing::kSanitized) GTEST_SKIP() << "three nights take minutes under a sanitizer";
  const uint64_t seed = testing::TestSeed();
  const std::array<Hits, 2> control = NightRun(Night::kControl, GetParam(), seed).Run();
  NightRun with_shares(Night::kShares, GetParam(), seed);
  const std::array<Hits, 2> shares = with_shares.Run();
  const std::array<Hits, 2> no_shares = NightRun(Night::kNoShares, GetParam(), seed).Run();
  for (size_t i = 0; i < shares.size(); ++i) {
    std::printf(
        "tenant %zu finds %.4f of its blocks in the control, %.4f with shares, %.4f without\n",
        i + 1, control[i].ratio(), shares[i].ratio(), no_shares[i].ratio());
    EXPECT_GT(control[i].ratio(), 0.95);
    EXPECT_NEAR(shares[i].ratio(), control[i].ratio(), 0.01);
    EXPECT_LT(no_shares[i].ratio(), control[i].ratio() - 0.1) << "or the night proves nothing";
    const auto tenant = static_cast<DomainId>(i + 1);
    EXPECT_EQ(with_shares.agent().evictor().ledger().SufferedBy(tenant), 0u);
    uint64_t taken = 0;
    with_shares.agent().evictor().ledger().ForEachTakenBy(
        tenant, [&taken](DomainId, uint64_t blocks) { taken += blocks; });
    EXPECT_GT(taken, 0u) << "the thread had borrowed what they had not used";
  }
}

// The order that is the default, and the one in which a night without shares is worst.
INSTANTIATE_TEST_SUITE_P(Orders, ThreeInTheMorningTest,
                         ::testing::Values(EvictionPolicies().host, EvictionPolicy::kLru),
                         [](const auto& tested) {
                           return std::string(EvictionPolicyName(tested.param));
                         });

}  // namespace
}  // namespace kvtier
