// Compares HostShares with a plain reference: shares, sizes of the node and what domains use
// change, domains come and go, and slabs are on their way, arrive, stay or get lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/block_lengths.h"
#include "core/tier_share.h"
#include "tests/testing/patience.h"
#include "tests/testing/test_seed.h"
#include "tests/tier_host/plain_host_shares.h"
#include "tier_host/host_shares.h"
#include "tier_host/host_tier.h"

namespace kvtier {
namespace {

using testing::Moves;
using testing::Moving;
using testing::PlainDomain;
using testing::PlainHostShares;

constexpr uint64_t kSlab = 4096;  // A slot is a whole slab.
constexpr uint64_t kMaxSlabs = testing::kMaxModelSlabs;
constexpr size_t kDomainsAtFirst = 4;
constexpr size_t kMaxDomains = 7;
constexpr int kStepsOfANode = 10'000;
constexpr int kNodes = testing::kSanitized ? 10 : 100;
constexpr uint64_t kMaxMovesToSettle = 4 * kMaxSlabs;

// ModelNode does the same things to HostShares with its HostTier, and to the reference.
class ModelNode {
 public:
  explicit ModelNode(uint64_t seed)
      : random_(seed), shares_(kMaxSlabs, kDomainsAtFirst), host_(Create()) {
    plain_.slabs = kMaxSlabs;
    for (size_t i = 0; i < kDomainsAtFirst; ++i) {
      const uint64_t part = kMaxSlabs / kDomainsAtFirst;
      plain_.domains.push_back({.share = {.guaranteed = part}, .open = part});
    }
    slots_.resize(kDomainsAtFirst);
  }

  void Step() {
    const size_t domain = random_() % plain_.domains.size();
    const uint64_t roll = random_() % 10'000;
    if (roll < 3500) {
      Use(domain);
    } else if (roll < 6000) {
      Unuse(domain);
    } else if (roll < 8500) {
      Begin();
    } else if (roll < 9900) {
      if (!plain_.moving.empty()) GoOn(random_() % plain_.moving.size());
    } else if (roll < 9980) {
      ChangeShares();
    } else if (roll < 9990) {
      Settle();
    } else if (roll < 9998) {
      AddDomain();
    } else {
      shares_.Fix(static_cast<DomainId>(domain));
      plain_.domains[domain].is_fixed = true;
    }
  }

  // Compares all answers with the reference's.
  void Check() const {
    ASSERT_EQ(shares_.Fair(*host_), plain_.Fair(PlainHostShares::Want::kNow)) << ToText();
    ASSERT_EQ(shares_.Present(*host_), plain_.Present());
    const std::optional<SlabMove> next = shares_.Next(*host_);
    ASSERT_TRUE(Contains(plain_.Next(), next)) << testing::ToText(next) << "\n" << ToText();
  }

 private:
  static std::unique_ptr<HostTier> Create() {
    HostTier::Options options{.slab_bytes = kSlab};
    for (size_t i = 0; i < kDomainsAtFirst; ++i) {
      options.domains.push_back({.name = absl::StrCat("domain", i),
                                 .bytes = kMaxSlabs / kDomainsAtFirst * kSlab,
                                 .max_bytes = kMaxSlabs * kSlab});
    }
    return *HostTier::Create(options);
  }
  static bool Contains(const Moves& moves, const std::optional<SlabMove>& move) {
    return std::ranges::find(moves, move) != moves.end();
  }

  void Use(size_t domain) {
    for (uint64_t slabs = 1 + random_() % 3; slabs > 0; --slabs) {
      absl::StatusOr<HostSlot> slot =
          host_->Reserve(static_cast<DomainId>(domain), ExactRoom(kSlab));
      PlainDomain& plain = plain_.domains[domain];
      ASSERT_EQ(slot.ok(), plain.used < plain.open);
      if (!slot.ok()) return;
      slots_[domain].push_back(*std::move(slot));
      ++plain.used;
    }
  }
  void Unuse(size_t domain) {
    for (uint64_t slabs = 1 + random_() % 3; slabs > 0 && !slots_[domain].empty(); --slabs) {
      slots_[domain].pop_back();
      --plain_.domains[domain].used;
    }
  }

  // Begins the next move of one of the three kinds, if there is one.
  void Begin() {
    const uint64_t kind = random_() % 10;
    if (kind == 0) return BeginOneOf(shares_.NextToFill(*host_), plain_.NextToFill());
    if (kind == 1) return BeginOneOf(shares_.NextToLeave(*host_), plain_.NextToLeave());
    BeginOneOf(shares_.Next(*host_), plain_.Next());
  }
  void BeginOneOf(const std::optional<SlabMove>& move, const Moves& allowed) {
    ASSERT_TRUE(Contains(allowed, move)) << testing::ToText(move) << "\n" << ToText();
    if (!move.has_value()) return;
    shares_.Begin(*move);
    Moving moving{.move = *move, .is_between = !move->from.has_value()};
    if (move->to.has_value()) ++plain_.domains[static_cast<size_t>(*move->to)].incoming;
    if (move->from.has_value()) {
      const auto from = static_cast<size_t>(*move->from);
      if (!host_->slots(*move->from).LastFree().has_value()) {
        slots_[from].erase(slots_[from].begin());
        --plain_.domains[from].used;
      }
      moving.slab = *host_->slots(*move->from).LastFree();
      host_->CloseSlab(*move->from, moving.slab);
      --plain_.domains[from].open;
      ++plain_.domains[from].closed;
    }
    plain_.moving.push_back(moving);
  }

  // Takes the next step of a move that has begun. Now and then the slab is held and stays, or the
  // system has no memory for it where it should arrive.
  void GoOn(size_t which) {
    Moving& moving = plain_.moving[which];
    if (moving.is_between) {
      Arrive(moving.move, random_() % 10 == 0);
      return End(which, HostShares::Outcome::kMoved);
    }
    PlainDomain& from = plain_.domains[static_cast<size_t>(*moving.move.from)];
    --from.closed;
    if (random_() % 5 == 0) {
      host_->ReopenSlab(*moving.move.from, moving.slab);
      ++from.open;
      return End(which, HostShares::Outcome::kStayed);
    }
    host_->RemoveSlab(*moving.move.from, moving.slab);
    shares_.NoteRemoved();
    moving.is_between = true;
  }
  void Arrive(const SlabMove& move, bool is_lost) {
    if (is_lost || !move.to.has_value()) return;
    const SlotPool& slots = host_->slots(*move.to);
    if (slots.absent_slabs().empty()) return;
    host_->AddSlab(*move.to, *slots.absent_slabs().begin());
    ++plain_.domains[static_cast<size_t>(*move.to)].open;
  }
  void End(size_t which, HostShares::Outcome outcome) {
    const SlabMove move = plain_.moving[which].move;
    if (move.to.has_value()) --plain_.domains[static_cast<size_t>(*move.to)].incoming;
    plain_.moving.erase(plain_.moving.begin() + static_cast<std::ptrdiff_t>(which));
    shares_.End(move, outcome);
  }

  // Gives the node another size, or not, and each domain another share, or none.
  void ChangeShares() {
    const bool resizes = random_() % 2 == 0;
    if (resizes) plain_.slabs = 1 + random_() % kMaxSlabs;
    uint64_t left = plain_.slabs;
    std::map<DomainId, TierShare> shares;
    for (size_t i = 0; i < plain_.domains.size(); ++i) {
      plain_.domains[i].share = {.maximum = 0};
      if (random_() % 8 == 0) continue;  // Its tenant was dropped.
      TierShare share{.guaranteed = random_() % (left / 2 + 1)};
      left -= share.guaranteed;
      if (random_() % 2 == 0) share.maximum = share.guaranteed + random_() % 8;
      share.weight = static_cast<uint32_t>(1 + random_() % 9);
      shares[static_cast<DomainId>(i)] = plain_.domains[i].share = share;
    }
    if (resizes) {
      shares_.Resize(plain_.slabs, shares);
    } else {
      shares_.Divide(shares);
    }
    std::vector<ShareClaim> claims;
    for (const PlainDomain& domain : plain_.domains) {
      claims.push_back({.share = domain.share, .wanted = UINT64_MAX});
    }
    std::vector<uint64_t> at_first = shares_.AtFirst();
    at_first.resize(claims.size());  // Domains that no share ever named begin with nothing.
    ASSERT_EQ(at_first, testing::SharesOneByOne(plain_.slabs, claims));
  }
  void AddDomain() {
    if (plain_.domains.size() == kMaxDomains) return;
    const std::string name = absl::StrCat("domain", plain_.domains.size());
    ASSERT_TRUE(host_->AddDomain({.name = name, .max_bytes = kMaxSlabs * kSlab}).ok());
    plain_.domains.emplace_back();
    slots_.emplace_back();
  }

  // Carries out all moves, and expects that each domain then has what it is to have.
  void Settle() {
    while (!plain_.moving.empty()) GoOn(0);
    for (uint64_t moves = 0; shares_.Next(*host_).has_value(); ++moves) {
      ASSERT_LT(moves, kMaxMovesToSettle) << "moves do not end\n" << ToText();
      const SlabMove move = *shares_.Next(*host_);
      BeginOneOf(move, plain_.Next());
      if (::testing::Test::HasFatalFailure()) return;
      while (!plain_.moving.empty()) GoOn(0);
    }
    ASSERT_TRUE(shares_.IsSettled(*host_) || HasFixed());
    const std::vector<uint64_t> fair = plain_.Fair(PlainHostShares::Want::kNow);
    for (size_t i = 0; i < fair.size(); ++i) {
      const PlainDomain& domain = plain_.domains[i];
      const SlotPool& slots = host_->slots(static_cast<DomainId>(i));
      ASSERT_EQ(slots.present_slabs(), domain.open) << ToText();
      ASSERT_EQ(slots.free_slabs(), domain.open - domain.used) << ToText();
      ASSERT_EQ(shares_.WantedBy(static_cast<DomainId>(i), *host_), domain.wanted());
      ASSERT_GE(domain.open, fair[i]) << ToText();
      ASSERT_TRUE(domain.is_fixed || domain.open <= domain.share.maximum) << ToText();
    }
    host_->Audit();
  }
  bool HasFixed() const {
    return std::ranges::any_of(plain_.domains,
                               [](const PlainDomain& domain) { return domain.is_fixed; });
  }

  std::string ToText() const {
    const std::vector<uint64_t> fair = plain_.Fair(PlainHostShares::Want::kNow);
    std::string text =
        absl::StrCat(plain_.slabs, " slabs, of which ", plain_.Present(), " present");
    for (size_t i = 0; i < fair.size(); ++i) {
      const PlainDomain& domain = plain_.domains[i];
      absl::StrAppend(&text, "\ndomain ", i, ": guaranteed ", domain.share.guaranteed, ", maximum ",
                      domain.share.maximum, ", weight ", domain.share.weight, ", open ",
                      domain.open, ", used ", domain.used, ", closed ", domain.closed,
                      ", incoming ", domain.incoming, ", fair ", fair[i],
                      domain.is_fixed ? ", fixed" : "");
    }
    for (const Moving& moving : plain_.moving) {
      absl::StrAppend(&text, "\nmoving ", testing::ToText(moving.move),
                      moving.is_between ? ", between" : "");
    }
    return text;
  }

  std::mt19937_64 random_;
  PlainHostShares plain_;
  HostShares shares_;
  std::unique_ptr<HostTier> host_;
  std::vector<std::vector<HostSlot>> slots_;  // Slots that are used, by domain; freed before host_.
};

TEST(HostSharesModelTest, AMillionOperationsAreAnsweredAsByAPlainReference) {
  const uint64_t seed = testing::TestSeed();
  for (int number = 0; number < kNodes; ++number) {
    ModelNode node(seed + static_cast<uint64_t>(number));
    for (int step = 0; step < kStepsOfANode; ++step) {
      node.Step();
      if (!HasFatalFailure()) node.Check();
      ASSERT_FALSE(HasFatalFailure()) << "node " << number << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace kvtier
