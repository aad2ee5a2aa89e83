#include "tier_host/host_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "tests/testing/patience.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kSlab = 4 * 4096;
constexpr DomainId kA{0};
constexpr DomainId kB{1};
constexpr DomainId kC{2};

// Node has some domains, whose slabs move at once; a slot is a whole slab.
class Node {
 public:
  // The node may grow to `max_slabs` slabs; if these are fewer than `slabs`, it cannot grow.
  Node(uint64_t slabs, const std::vector<uint64_t>& at_first, uint64_t max_slabs = 0)
      : shares(slabs, at_first.size()) {
    HostTier::Options options{.slab_bytes = kSlab};
    for (const uint64_t of_one : at_first) {
      options.domains.push_back({.name = absl::StrCat("domain", options.domains.size()),
                                 .bytes = of_one * kSlab,
                                 .max_bytes = std::max(slabs, max_slabs) * kSlab});
    }
    host = *HostTier::Create(options);
    slots_.resize(at_first.size());
  }
  ~Node() { slots_.clear(); }

  // Gives one domain another share, and leaves the others theirs.
  void Set(DomainId domain, const TierShare& share) {
    std::map<DomainId, TierShare> all;
    for (size_t i = 0; i < slots_.size(); ++i) {
      all[static_cast<DomainId>(i)] = shares.Of(static_cast<DomainId>(i));
    }
    all[domain] = share;
    shares.Divide(all);
  }
  // Gives the node another number of slabs, and each domain an equal part of them guaranteed.
  void Resize(uint64_t slabs) {
    std::map<DomainId, TierShare> all;
    for (size_t i = 0; i < slots_.size(); ++i) {
      all[static_cast<DomainId>(i)] = {.guaranteed = slabs / slots_.size()};
    }
    shares.Resize(slabs, all);
  }
  uint64_t held(DomainId domain) const { return host->slots(domain).present_slabs(); }
  uint64_t used(DomainId domain) const { return SlotsOf(domain).size(); }
  // Takes up to `slabs` more slabs into use, as far as the domain has them.
  void Use(DomainId domain, uint64_t slabs) {
    for (; slabs > 0; --slabs) {
      absl::StatusOr<HostSlot> slot = host->Reserve(domain, ExactRoom(kSlab));
      if (!slot.ok()) return;
      SlotsOf(domain).push_back(*std::move(slot));
    }
  }
  void Unuse(DomainId domain, uint64_t slabs) {
    for (; slabs > 0 && !SlotsOf(domain).empty(); --slabs) SlotsOf(domain).pop_back();
  }
  void Carry(const SlabMove& move) {
    if (move.from.has_value()) {
      if (host->slots(*move.from).free_slabs() == 0)
        SlotsOf(*move.from).erase(SlotsOf(*move.from).begin());
      const uint32_t slab = *host->slots(*move.from).LastFree();
      host->CloseSlab(*move.from, slab);
      host->RemoveSlab(*move.from, slab);
    }
    if (move.to.has_value()) {
      host->AddSlab(*move.to, *host->slots(*move.to).absent_slabs().begin());
    }
  }
  // Carries moves out until there is none, and returns how many there were.
  uint64_t Settle() {
    uint64_t moves = 0;
    while (const std::optional<SlabMove> move = shares.Next(*host)) {
      Carry(*move);
      ++moves;
      KVT_CHECK(moves < 10'000);
    }
    return moves;
  }

  HostShares shares;
  std::unique_ptr<HostTier> host;

 private:
  std::vector<HostSlot>& SlotsOf(DomainId domain) { return slots_[static_cast<size_t>(domain)]; }
  const std::vector<HostSlot>& SlotsOf(DomainId domain) const {
    return slots_[static_cast<size_t>(domain)];
  }
  std::vector<std::vector<HostSlot>> slots_;
};

TEST(HostSharesTest, DomainsBeginWithEqualPartsWhereNothingIsSet) {
  EXPECT_THAT(HostShares(10, 2).AtFirst(), ElementsAre(5, 5));
  EXPECT_THAT(HostShares(10, 3).AtFirst(), ElementsAre(4, 3, 3));
}

TEST(HostSharesTest, DomainsBeginWithTheirGuaranteesAndTheRestByWeight) {
  HostShares shares(100, 3);
  shares.Divide({{kA, {.guaranteed = 10, .weight = 3}}, {kB, {.guaranteed = 50}}});
  EXPECT_THAT(shares.AtFirst(), ElementsAre(40, 60, 0)) << "who is not named may have nothing";
}

TEST(HostSharesTest, NothingMovesWhileEachHasRoom) {
  Node node(10, {5, 5});
  node.Use(kA, 4);
  EXPECT_EQ(node.shares.Next(*node.host), std::nullopt);
}

TEST(HostSharesTest, AGuaranteeThatIsNotUsedIsLentButForOneSlab) {
  Node node(10, {5, 5});
  node.Use(kA, 5);
  EXPECT_EQ(node.shares.Next(*node.host), (SlabMove{.from = kB, .to = kA}));
  for (int i = 0; i < 10; ++i) {
    node.Settle();
    node.Use(kA, 1);
  }
  EXPECT_EQ(node.held(kA), 9u);
  EXPECT_EQ(node.held(kB), 1u);
}

TEST(HostSharesTest, WhatWasLentIsTakenBackSlabBySlab) {
  Node node(10, {9, 1});
  node.Use(kA, 9);
  for (uint64_t slabs = 1; slabs <= 5; ++slabs) {
    EXPECT_EQ(node.held(kB), slabs);
    node.Use(kB, 1);
    node.Settle();
  }
  EXPECT_EQ(node.held(kA), 5u);
  EXPECT_EQ(node.used(kA), 5u);
  EXPECT_EQ(node.held(kB), 5u) << "and no more than its guarantee";
}

TEST(HostSharesTest, ItIsTakenFromWhoeverIsFurthestBeyondItsShare) {
  Node node(12, {7, 5, 0});
  node.Use(kA, 7);
  node.Use(kB, 5);
  EXPECT_EQ(node.shares.Next(*node.host), (SlabMove{.from = kA, .to = kC}));
}

TEST(HostSharesTest, FreeSlabsAreTakenBeforeAnyThatIsUsed) {
  Node node(12, {8, 4, 0});
  node.Set(kB, {.guaranteed = 1});
  node.Use(kA, 8);
  node.Use(kB, 2);
  EXPECT_EQ(node.shares.Next(*node.host), (SlabMove{.from = kB, .to = kC}));
}

TEST(HostSharesTest, MemoryThatNobodyHasGoesFirst) {
  Node node(12, {5, 5});
  node.Use(kA, 5);
  EXPECT_EQ(node.shares.Next(*node.host), (SlabMove{.from = std::nullopt, .to = kA}));
}

TEST(HostSharesTest, ADomainAtItsMaximumGetsNoMore) {
  Node node(10, {2, 2});
  node.Set(kA, {.guaranteed = 1, .maximum = 2});
  node.Use(kA, 2);
  EXPECT_EQ(node.shares.Next(*node.host), std::nullopt);
}

TEST(HostSharesTest, SlabsOnTheirWayCountForWhereTheyGo) {
  Node node(10, {5, 5});
  node.Use(kA, 5);
  const SlabMove move = *node.shares.Next(*node.host);
  node.shares.Begin(move);
  node.host->CloseSlab(kB, *node.host->slots(kB).LastFree());
  EXPECT_EQ(node.shares.Next(*node.host), std::nullopt) << "A is to have a free slab";
  node.host->RemoveSlab(kB, 4);
  node.shares.NoteRemoved();
  EXPECT_EQ(node.shares.Next(*node.host), std::nullopt);
  node.Use(kB, 4);
  EXPECT_EQ(node.shares.Next(*node.host), std::nullopt) << "the slab between is no memory to spare";
  node.host->AddSlab(kA, *node.host->slots(kA).absent_slabs().begin());
  node.shares.End(move, HostShares::Outcome::kMoved);
  EXPECT_EQ(node.shares.Next(*node.host), (SlabMove{.from = kA, .to = kB}));
}

TEST(HostSharesTest, AMoveThatCouldNotBeIsAsIfItHadNotBegun) {
  Node node(10, {5, 5});
  node.Use(kA, 5);
  const std::optional<SlabMove> move = node.shares.Next(*node.host);
  node.shares.Begin(*move);
  node.host->CloseSlab(kB, 4);
  node.host->ReopenSlab(kB, 4);
  node.shares.End(*move, HostShares::Outcome::kStayed);
  EXPECT_EQ(node.shares.Next(*node.host), move);
}

TEST(HostSharesTest, AFixedDomainNeitherGivesNorTakes) {
  Node node(10, {8, 2});
  node.shares.Fix(kA);
  node.Use(kA, 8);
  node.Use(kB, 2);
  EXPECT_EQ(node.shares.Next(*node.host), std::nullopt);
  EXPECT_THAT(node.shares.Fair(*node.host), ElementsAre(8, 2));
}

TEST(HostSharesTest, AFixedDomainLeavesOthersTheirGuarantees) {
  Node node(9, {5, 3, 1});
  node.shares.Fix(kB);
  node.Use(kA, 5);
  node.Use(kB, 3);
  node.Use(kC, 1);
  EXPECT_THAT(node.shares.Fair(*node.host), ElementsAre(3, 3, 3));
  EXPECT_EQ(node.shares.Next(*node.host), (SlabMove{.from = kA, .to = kC}));
}

TEST(HostSharesTest, WhoIsNotNamedAnyMoreGivesEverythingBack) {
  Node node(10, {5, 5});
  node.Use(kA, 5);
  node.Use(kB, 5);
  node.shares.Divide({{kA, {.guaranteed = 5}}});
  for (int i = 0; i < 10; ++i) {
    node.Settle();
    node.Use(kA, 1);
  }
  EXPECT_EQ(node.held(kA), 10u);
  EXPECT_EQ(node.held(kB), 0u);
}

TEST(HostSharesTest, ANodeThatShrinksGivesFreeSlabsUpFirstAndThenWhatIsBeyondFairShares) {
  Node node(10, {5, 5});
  node.Use(kA, 5);
  node.Use(kB, 2);
  node.Resize(6);
  EXPECT_EQ(node.shares.Next(*node.host), (SlabMove{.from = kB}));
  EXPECT_EQ(node.Settle(), 4u);
  EXPECT_TRUE(node.shares.IsSettled(*node.host));
  EXPECT_EQ(node.held(kA), 3u);
  EXPECT_EQ(node.held(kB), 3u);
  EXPECT_EQ(node.used(kB), 2u) << "what it used of its guarantee stayed";
}

TEST(HostSharesTest, ADomainThatLacksItsGuaranteeComesBeforeANodeThatShrinks) {
  Node node(10, {9, 1});
  node.Use(kA, 9);
  node.Use(kB, 1);
  node.Resize(8);
  EXPECT_EQ(node.shares.Next(*node.host), (SlabMove{.from = kA, .to = kB}));
  node.Settle();
  EXPECT_EQ(node.held(kA) + node.held(kB), 8u);
  EXPECT_GE(node.held(kB), 2u) << "what it uses, and one";
}

TEST(HostSharesTest, ANodeThatGrowsIsFilledWhereNobodyAsks) {
  Node node(4, {2, 2}, 8);
  EXPECT_EQ(node.shares.NextToFill(*node.host), std::nullopt) << "there is no memory to spare";
  node.Resize(8);
  EXPECT_EQ(node.shares.Next(*node.host), std::nullopt);
  while (const auto move = node.shares.NextToFill(*node.host)) node.Carry(*move);
  EXPECT_EQ(node.held(kA), 4u);
  EXPECT_EQ(node.held(kB), 4u);
}

TEST(HostSharesTest, MemoryThatNobodyMayHaveIsNotTaken) {
  Node node(4, {2, 2}, 8);
  node.shares.Resize(8, {{kA, {.maximum = 3}}, {kB, {.maximum = 2}}});
  EXPECT_EQ(node.shares.NextToFill(*node.host), (SlabMove{.to = kA}));
  node.Carry({.to = kA});
  EXPECT_EQ(node.shares.NextToFill(*node.host), std::nullopt);
}

TEST(HostSharesTest, SlabsOnTheirWayOutAreNotTakenTwice) {
  Node node(4, {2, 2});
  node.Resize(3);
  const SlabMove move = *node.shares.NextToLeave(*node.host);
  node.shares.Begin(move);
  node.host->CloseSlab(*move.from, *node.host->slots(*move.from).LastFree());
  EXPECT_FALSE(node.shares.IsSettled(*node.host));
  EXPECT_EQ(node.shares.NextToLeave(*node.host), std::nullopt);
  EXPECT_FALSE(node.shares.HasRoomForAll(*node.host));
  node.Resize(4);
  EXPECT_TRUE(node.shares.HasRoomForAll(*node.host)) << "so that the slab can stay";
  EXPECT_EQ(node.shares.NextToFill(*node.host), std::nullopt) << "it is there still";
  node.host->ReopenSlab(*move.from, 1);
  node.shares.End(move, HostShares::Outcome::kStayed);
  EXPECT_TRUE(node.shares.IsSettled(*node.host));
}

TEST(HostSharesTest, WhatIsFixedStaysWhenTheNodeShrinks) {
  Node node(10, {5, 5});
  node.shares.Fix(kA);
  node.Resize(6);
  node.Settle();
  EXPECT_EQ(node.held(kA), 5u);
  EXPECT_EQ(node.held(kB), 1u);
}

TEST(HostSharesDeathTest, GuaranteesBeyondAllSlabsAbort) {
  HostShares shares(10, 2);
  EXPECT_DEATH(shares.Divide({{kA, {.guaranteed = 6}}, {kB, {.guaranteed = 5}}}), "CHECK failed");
}

// Checks the laws of the shares, whatever happens. A domain has what it wants of its guarantee as
// soon as nothing is to move, and no move on the way leaves a domain with less. All together have
// no more slabs than the node, whose size changes. Moves end.
TEST(HostSharesModelTest, AMillionOperationsBreakNoGuarantee) {
  std::mt19937_64 random(testing::TestSeed());
  constexpr uint64_t kMaxSlabs = 40;
  constexpr size_t kDomains = 5;
  constexpr int kSteps = testing::kSanitized ? 100'000 : 1'000'000;
  uint64_t slabs = kMaxSlabs;
  Node node(slabs, {8, 8, 8, 8, 8});
  const auto wanted = [&](DomainId domain) {
    if (node.host->slots(domain).free_slabs() == 0) return slabs;
    return node.used(domain) + std::max<uint64_t>(1, node.used(domain) / kHeadroomDivisor);
  };
  for (int step = 0; step < kSteps; ++step) {
    const auto domain = static_cast<DomainId>(random() % kDomains);
    if (random() % 1000 == 0) {
      if (random() % 2 == 0) slabs = kDomains + random() % (kMaxSlabs - kDomains + 1);
      std::map<DomainId, TierShare> shares;
      for (size_t i = 0; i < kDomains; ++i) {
        if (random() % 10 == 0) continue;
        const uint64_t guaranteed = random() % (slabs / kDomains + 1);
        shares[static_cast<DomainId>(i)] = {
            .guaranteed = guaranteed,
            .maximum = random() % 2 == 0 ? UINT64_MAX : guaranteed + random() % 20,
            .weight = static_cast<uint32_t>(1 + random() % 9)};
      }
      node.shares.Resize(slabs, shares);
    } else if (random() % 2 == 0) {
      node.Use(domain, 1 + random() % 4);
    } else {
      node.Unuse(domain, 1 + random() % 4);
    }
    const bool fills = random() % 100 == 0;
    uint64_t moves = 0;
    while (true) {
      std::optional<SlabMove> move = node.shares.Next(*node.host);
      if (!move.has_value() && fills) move = node.shares.NextToFill(*node.host);
      if (!move.has_value()) break;
      if (move->from.has_value()) {
        const TierShare of = node.shares.Of(*move->from);
        ASSERT_GT(node.held(*move->from), std::min(of.guaranteed, wanted(*move->from)));
      }
      if (move->to.has_value()) {
        ASSERT_LT(node.held(*move->to), node.shares.Of(*move->to).maximum);
      } else {
        ASSERT_TRUE(node.shares.Present(*node.host) > slabs ||
                    node.held(*move->from) > node.shares.Of(*move->from).maximum);
      }
      node.Carry(*move);
      ASSERT_LE(++moves, 2 * kMaxSlabs) << "step " << step;
    }
    uint64_t held = 0;
    for (size_t i = 0; i < kDomains; ++i) {
      const auto of = static_cast<DomainId>(i);
      held += node.held(of);
      ASSERT_GE(node.held(of), std::min(node.shares.Of(of).guaranteed, wanted(of)))
          << "step " << step;
    }
    ASSERT_LE(held, slabs) << "step " << step;
    if (step % 1000 == 0) node.host->Audit();
  }
}

}  // namespace
}  // namespace kvtier
