// Tests the limits of kept prefixes: for one domain, for the node, and for one look at their
// deadlines.
#include "agent/sessions/kept_prefixes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "tests/testing/numbered_key.h"
#include "tests/testing/still_clock.h"

namespace kvtier {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kSlots = 16;  // Slots of each domain.
constexpr size_t kDomains = kMaxKeptPrefixes / kMaxKeptPrefixesPerDomain + 1;
static_assert(kDomains > kMaxKeptBlocks / kMaxKeptBlocksPerDomain);
const absl::Time kDeadline = absl::UnixEpoch() + absl::Hours(1);

// Each domain has one block in host memory.
class KeptPrefixesTest : public ::testing::Test {
 protected:
  KeptPrefixesTest() {
    for (size_t i = 0; i < kDomains; ++i) {
      HostSlot slot = *host_->Reserve(DomainId(i), ExactRoom(kPage));
      const BlockMeta meta{.key = KeyOf(DomainId(i)), .length = kPage};
      index_.PublishHost(meta, std::move(slot), Arrival::kComputed, ReuseHint(), index_.Now());
    }
  }
  ~KeptPrefixesTest() override {
    kept_.Audit();
    index_.Audit();
    for (size_t i = 0; i < kDomains; ++i) kept_.EndSome(DomainId(i), kMaxKeptBlocks);
    kept_.Audit();
  }
  static BlockKey KeyOf(DomainId domain) {
    return testing::NumberedKey(static_cast<uint64_t>(domain));
  }
  // Keeps one more prefix, which has the domain's block `times` times.
  KeepLimit Keep(DomainId domain, size_t times = 1) {
    const KeptPrefixes::Begun begun = kept_.Begin(domain, {.hi = 1, .lo = ++begun_}, kDeadline);
    if (begun.limit != KeepLimit::kNone) return begun.limit;
    KeepLimit limit = KeepLimit::kNone;
    for (; times > 0 && limit == KeepLimit::kNone; --times) {
      limit = kept_.Add(begun.handle, KeyOf(domain));
    }
    kept_.Filled(begun.handle);
    return limit;
  }
  static std::unique_ptr<HostTier> MakeHost() {
    HostTier::Options options{.slab_bytes = kSlots * kPage};
    for (size_t i = 0; i < kDomains; ++i) {
      options.domains.push_back({.name = absl::StrCat("test-", i), .bytes = kSlots * kPage});
    }
    return *HostTier::Create(options);
  }

  std::unique_ptr<HostTier> host_ = MakeHost();
  HostShares shares_{kDomains, kDomains};  // Shares with one slab for each domain.
  BlockChanges changes_;
  testing::StillClock clock_;
  BlockIndex index_{{.domains = kDomains, .clock = &clock_, .changes = &changes_}};
  KeptPrefixes kept_{
      {.index = &index_, .host = host_.get(), .shares = &shares_, .changes = &changes_}};
  uint64_t begun_ = 0;
};

TEST_F(KeptPrefixesTest, ADomainHasSoManyPrefixesAndTheNodeSoMany) {
  for (size_t domain = 0; domain + 1 < kDomains; ++domain) {
    for (size_t i = 0; i < kMaxKeptPrefixesPerDomain; ++i) {
      ASSERT_EQ(Keep(DomainId(domain)), KeepLimit::kNone);
    }
    ASSERT_EQ(Keep(DomainId(domain)), KeepLimit::kTenantPrefixes);
  }
  EXPECT_EQ(Keep(DomainId(kDomains - 1)), KeepLimit::kNodePrefixes);
  kept_.EndSome(DomainId(3), kMaxKeptBlocks);
  EXPECT_EQ(Keep(DomainId(kDomains - 1)), KeepLimit::kNone);
}

TEST_F(KeptPrefixesTest, ADomainHasSoManyBlocksAndTheNodeSoMany) {
  constexpr size_t kFull = kMaxKeptBlocks / kMaxKeptBlocksPerDomain;
  for (size_t domain = 0; domain < kFull; ++domain) {
    ASSERT_EQ(Keep(DomainId(domain), kMaxKeptBlocksPerDomain), KeepLimit::kNone);
    ASSERT_EQ(Keep(DomainId(domain)), KeepLimit::kTenantBlocks);
    ASSERT_EQ(kept_.UseOf(DomainId(domain)).bytes, kPage);
  }
  EXPECT_EQ(Keep(DomainId(kFull)), KeepLimit::kNodeBlocks);
  EXPECT_TRUE(kept_.List(DomainId(kFull), absl::InfinitePast()).empty()) << "of nothing";
}

TEST_F(KeptPrefixesTest, ALongOneEndsInSeveralLooksAtTheDeadlines) {
  constexpr DomainId kDomain{0};
  ASSERT_EQ(Keep(kDomain, 2 * kEndedPerSweep + 1), KeepLimit::kNone);
  kept_.Sweep(kDeadline);
  EXPECT_EQ(kept_.UseOf(kDomain).blocks, 2 * kEndedPerSweep + 1) << "it is not over";
  const absl::Time over = kDeadline + absl::Nanoseconds(1);
  for (size_t left = kEndedPerSweep + 1; left > 1; left -= kEndedPerSweep) {
    kept_.Sweep(over);
    EXPECT_EQ(kept_.UseOf(kDomain).blocks, left);
    EXPECT_TRUE(kept_.List(kDomain, over).empty()) << "nobody is told of it any more";
  }
  kept_.Sweep(over);
  kept_.Sweep(over);
  EXPECT_EQ(kept_.UseOf(kDomain), KeptPrefixes::Use());
}

TEST_F(KeptPrefixesTest, WhatIsBeyondAQuotaThatShrankEndsTheSoonestFirst) {
  constexpr DomainId kDomain{0};
  constexpr uint64_t kPages = 2;  // Blocks of each prefix.
  shares_.Divide({{kDomain, {.guaranteed = 2}}});
  const absl::Time now = kDeadline - absl::Hours(1);
  for (const int minutes : {50, 10, 30}) {
    const KeptPrefixes::Begun begun =
        kept_.Begin(kDomain, {.hi = 2, .lo = ++begun_}, now + absl::Minutes(minutes));
    for (uint64_t i = 0; i < kPages; ++i) {
      const BlockMeta meta{.key = testing::NumberedKey(kDomains * begun_ + i), .length = kPage};
      index_.PublishHost(meta, *host_->Reserve(kDomain, ExactRoom(kPage)), Arrival::kComputed,
                         ReuseHint(), index_.Now());
      ASSERT_EQ(kept_.Add(begun.handle, meta.key), KeepLimit::kNone);
    }
    kept_.Filled(begun.handle);
  }
  kept_.Sweep(now);
  EXPECT_EQ(kept_.UseOf(kDomain).bytes, 3 * kPages * kPage) << "all of it fits";
  shares_.Divide({{kDomain, {.guaranteed = 1}}});
  kept_.Sweep(now);
  const std::vector<KeptPrefixes::Listed> left = kept_.List(kDomain, now);
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].deadline, now + absl::Minutes(50));
  EXPECT_EQ(left[1].deadline, now + absl::Minutes(30));
  shares_.Divide({});
  kept_.Sweep(now);
  EXPECT_EQ(kept_.UseOf(kDomain), KeptPrefixes::Use());
}

TEST_F(KeptPrefixesTest, AnIdIsNotUsedAgain) {
  constexpr DomainId kDomain{0};
  ASSERT_EQ(Keep(kDomain), KeepLimit::kNone);
  kept_.EndSome(kDomain, kMaxKeptBlocks);
  ASSERT_EQ(Keep(kDomain), KeepLimit::kNone);
  ASSERT_EQ(kept_.List(kDomain, absl::InfinitePast()).size(), 1u);
  EXPECT_EQ(kept_.List(kDomain, absl::InfinitePast())[0].id, KeptId{2});
  EXPECT_EQ(kept_.Find(kDomain, KeptId{1}), std::nullopt);
}

}  // namespace
}  // namespace kvtier
