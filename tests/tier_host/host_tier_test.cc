#include "tier_host/host_tier.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <memory>
#include <utility>

namespace kvtier {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kSlab = 16 * kPage;
constexpr DomainId kOpen{0};
constexpr DomainId kSecret{1};

std::unique_ptr<HostTier> MakeTier() {
  HostTier::Options options;
  options.slab_bytes = kSlab;
  options.domains = {{.name = "open", .bytes = 2 * kSlab}, {.name = "secret", .bytes = kSlab}};
  auto tier = HostTier::Create(options);
  EXPECT_TRUE(tier.ok()) << tier.status();
  return *std::move(tier);
}

HostSlot MustReserve(HostTier* tier, DomainId domain, uint64_t block_bytes) {
  auto slot = tier->Reserve(domain, ExactRoom(block_bytes));
  EXPECT_TRUE(slot.ok()) << slot.status();
  return *std::move(slot);
}

TEST(HostTierTest, TwoDomainsAreTwoFiles) {
  const auto tier = MakeTier();
  struct stat open_file{};
  struct stat secret_file{};
  ASSERT_EQ(fstat(tier->arena(kOpen).read_only_fd(), &open_file), 0);
  ASSERT_EQ(fstat(tier->arena(kSecret).read_only_fd(), &secret_file), 0);
  EXPECT_NE(open_file.st_ino, secret_file.st_ino);
}

TEST(HostTierTest, ASlotLiesInItsOwnDomainsArena) {
  const auto tier = MakeTier();
  const HostSlot slot = MustReserve(tier.get(), kSecret, kPage);
  EXPECT_EQ(slot.domain(), kSecret);
  EXPECT_EQ(slot.bytes().data(), tier->arena(kSecret).bytes().data() + slot.offset().value);
}

TEST(HostTierTest, OneFullDomainLeavesTheOtherItsRoom) {
  const auto tier = MakeTier();
  const HostSlot all = MustReserve(tier.get(), kSecret, kSlab);
  const auto more = tier->Reserve(kSecret, ExactRoom(kPage));
  EXPECT_EQ(more.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(tier->Reserve(kOpen, ExactRoom(kPage)).ok());
}

TEST(HostTierTest, ADomainIsAddedBesideSlotsInUse) {
  const auto tier = MakeTier();
  const HostSlot before = MustReserve(tier.get(), kOpen, kPage);
  const auto added = tier->AddDomain({.name = "late", .bytes = kSlab});
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(*added, DomainId{2});
  EXPECT_EQ(tier->domain_count(), 3);
  EXPECT_EQ(tier->slots(*added).capacity_bytes(), 0u);
  ASSERT_TRUE(tier->ArenaOf(*added)->Fill(0, kSlab).ok());
  tier->AddSlab(*added, 0);
  const HostSlot slot = MustReserve(tier.get(), *added, kSlab);
  EXPECT_EQ(before.bytes().data(), tier->arena(kOpen).bytes().data());
  EXPECT_EQ(tier->AddDomain({.name = "small", .bytes = kPage}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(tier->domain_count(), 3);
  tier->Audit();
}

TEST(HostTierTest, ADomainThatEndsGivesItsArenaAndItsSlabsAway) {
  const auto tier = MakeTier();
  tier->CloseSlab(kSecret, 0);
  tier->RemoveSlab(kSecret, 0);
  std::unique_ptr<Arena> arena = tier->DropDomain(kSecret);
  EXPECT_EQ(arena->bytes().size(), kSlab) << "mapped until it is destroyed";
  const int fd = arena->read_only_fd();
  arena.reset();
  struct stat file{};
  EXPECT_EQ(fstat(fd, &file), -1) << "closed";
  EXPECT_FALSE(tier->HasArena(kSecret));
  EXPECT_TRUE(tier->HasArena(kOpen));
  EXPECT_EQ(tier->domain_count(), 2) << "ids stay";
  EXPECT_EQ(tier->slots(kSecret).slab_count(), 0u);
  EXPECT_EQ(tier->Reserve(kSecret, ExactRoom(kPage)).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(tier->capacity_bytes(), 2 * kSlab);
  tier->Audit();
}

// Slabs may be larger than what one thread takes at a time.
TEST(HostTierTest, AllMemoryIsTakenByAnyNumberOfThreadsAndTold) {
  constexpr uint64_t kLarge = kFillBytes + 2 * kPage;
  for (const size_t threads : {1, 3, 64}) {
    StartProgress progress;
    const auto tier = HostTier::Create(
        {.domains = {{.name = "a", .bytes = kLarge}, {.name = "b", .bytes = kLarge + kPage}},
         .slab_bytes = kLarge,
         .threads = threads,
         .progress = &progress});
    ASSERT_TRUE(tier.ok()) << tier.status();
    EXPECT_EQ((*tier)->arena(kOpen).held_bytes(), kLarge);
    EXPECT_EQ((*tier)->arena(kSecret).held_bytes(), kLarge);
    EXPECT_EQ((*tier)->slots(kSecret).present_slabs(), 1u);
    EXPECT_EQ(progress.Text(), "takes host memory: 128 of 128 MiB");
  }
}

TEST(HostTierTest, ADomainMayHaveMoreThanItBeginsWith) {
  HostTier::Options options{
      .domains = {{.name = "grows", .bytes = 2 * kSlab, .max_bytes = 5 * kSlab + kPage}},
      .slab_bytes = kSlab,
      .threads = 4};
  const auto tier = *HostTier::Create(options);
  EXPECT_EQ(tier->arena(kOpen).bytes().size(), 5 * kSlab);
  EXPECT_EQ(tier->arena(kOpen).held_bytes(), 2 * kSlab);
  EXPECT_EQ(tier->slots(kOpen).capacity_bytes(), 2 * kSlab);
  EXPECT_EQ(tier->capacity_bytes(), 2 * kSlab);
  EXPECT_EQ(tier->BytesOf(kOpen, 4).data(), tier->arena(kOpen).bytes().data() + 4 * kSlab);
  tier->Audit();
}

TEST(HostTierTest, ASlabIsFreeUntilItHasASlotAndAgainAfterItsLast) {
  const auto tier = MakeTier();
  EXPECT_EQ(tier->slots(kOpen).free_slab_bytes(), 2 * kSlab);
  HostSlot slot = MustReserve(tier.get(), kOpen, kPage);
  EXPECT_EQ(tier->slots(kOpen).free_slab_bytes(), kSlab);
  EXPECT_EQ(tier->slots(kSecret).free_slab_bytes(), kSlab);
  slot.Release();
  EXPECT_EQ(tier->slots(kOpen).free_slab_bytes(), 2 * kSlab);
}

TEST(HostTierTest, SlotsRoundUpToWholePages) {
  const auto tier = MakeTier();
  for (const auto& [block_bytes, slot_bytes] : {std::pair<uint64_t, uint64_t>{1, kPage},
                                                {kPage - 1, kPage},
                                                {kPage, kPage},
                                                {kPage + 1, 2 * kPage},
                                                {kSlab - 1, kSlab},
                                                {kSlab, kSlab}}) {
    const HostSlot slot = MustReserve(tier.get(), kOpen, block_bytes);
    EXPECT_EQ(slot.bytes().size(), slot_bytes) << block_bytes;
    EXPECT_EQ(tier->used_bytes(), slot_bytes) << block_bytes;
    tier->Audit();
  }
}

TEST(HostTierTest, ABlockLargerThanASlabIsInvalid) {
  const auto tier = MakeTier();
  for (const uint64_t bytes : {kSlab + 1, ~uint64_t{0}}) {
    EXPECT_EQ(tier->Reserve(kOpen, ExactRoom(bytes)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(HostTierTest, ADestroyedSlotIsFreeAgain) {
  const auto tier = MakeTier();
  {
    const HostSlot slot = MustReserve(tier.get(), kOpen, kPage);
  }
  EXPECT_EQ(tier->used_bytes(), 0u);
}

TEST(HostTierTest, AMovedSlotIsGivenBackOnce) {
  const auto tier = MakeTier();
  HostSlot first = MustReserve(tier.get(), kOpen, kPage);
  const SlotOffset offset = first.offset();
  HostSlot second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): the state after a move is promised.
  EXPECT_TRUE(second);
  EXPECT_EQ(second.offset(), offset);
  first.Release();
  EXPECT_EQ(tier->used_bytes(), kPage);
  second.Release();
  second.Release();
  EXPECT_EQ(tier->used_bytes(), 0u);
}

TEST(HostTierTest, AssigningOverASlotGivesTheOldOneBack) {
  const auto tier = MakeTier();
  HostSlot slot = MustReserve(tier.get(), kOpen, kPage);
  HostSlot other = MustReserve(tier.get(), kSecret, 2 * kPage);
  slot = std::move(other);
  EXPECT_EQ(slot.domain(), kSecret);
  EXPECT_EQ(tier->used_bytes(), 2 * kPage);
  HostSlot& itself = slot;
  slot = std::move(itself);
  EXPECT_TRUE(slot);
  EXPECT_EQ(tier->used_bytes(), 2 * kPage);
}

TEST(HostTierTest, SlotsDoNotShareBytes) {
  const auto tier = MakeTier();
  const HostSlot a = MustReserve(tier.get(), kOpen, 3 * kPage);
  const HostSlot b = MustReserve(tier.get(), kOpen, 3 * kPage);
  std::memset(a.bytes().data(), 'a', a.bytes().size());
  std::memset(b.bytes().data(), 'b', b.bytes().size());
  EXPECT_EQ(a.bytes().front(), std::byte{'a'});
  EXPECT_EQ(a.bytes().back(), std::byte{'a'});
}

TEST(HostTierTest, ADomainIsRoundedDownToWholeSlabs) {
  HostTier::Options options;
  options.slab_bytes = kSlab;
  options.domains = {{.name = "odd", .bytes = 3 * kSlab - 1}};
  const auto tier = HostTier::Create(options);
  ASSERT_TRUE(tier.ok()) << tier.status();
  EXPECT_EQ((*tier)->capacity_bytes(), 2 * kSlab);
}

TEST(HostTierTest, ADomainSmallerThanASlabIsInvalid) {
  HostTier::Options options;
  options.slab_bytes = kSlab;
  options.domains = {{.name = "small", .bytes = kSlab - 1}};
  EXPECT_EQ(HostTier::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(HostTierTest, ADomainThatDoesNotFitInMemoryIsResourceExhausted) {
  HostTier::Options options;
  options.domains = {{.name = "huge", .bytes = uint64_t{1} << 60}};
  EXPECT_EQ(HostTier::Create(options).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(HostTierDeathTest, ATierThatEndsBeforeItsSlotsAborts) {
  EXPECT_DEATH(
      {
        auto tier = MakeTier();
        HostSlot slot = MustReserve(tier.get(), kOpen, kPage);
        tier.reset();
      },
      "CHECK failed");
}

TEST(HostTierDeathTest, ADomainThatEndsWithASlabAborts) {
  const auto tier = MakeTier();
  EXPECT_DEATH(tier->DropDomain(kSecret), "CHECK failed");
}

TEST(HostTierDeathTest, AnUnknownDomainAborts) {
  const auto tier = MakeTier();
  EXPECT_DEATH((void)tier->Reserve(DomainId{2}, ExactRoom(kPage)), "CHECK failed");
}

// Regression: before sizes had classes, each of 60,000 lengths had slabs of its own size, nearly
// empty.
TEST(HostTierTest, BlocksOfManyLengthsShareTheSlabsOfFewSizes) {
  constexpr uint64_t kLong = 200 << 10;
  HostTier::Options options{.domains = {{.name = "one", .bytes = 64 << 20}}, .slab_bytes = 1 << 20};
  const std::unique_ptr<HostTier> host = *HostTier::Create(options);
  const BlockLengths lengths{.longest = kLong, .any = true};
  std::vector<HostSlot> slots;
  uint64_t pages = 0;
  for (uint64_t length = kLong;; length = 1 + (length + 7919) % kLong) {
    absl::StatusOr<HostSlot> slot =
        host->Reserve(DomainId{0}, host->RoomFor(DomainId{0}, lengths, length));
    if (!slot.ok()) break;
    pages += slot->bytes().size();
    slots.push_back(*std::move(slot));
  }
  EXPECT_GT(slots.size(), 300u);
  // The losses are at most a fifth of each slot, the rest at the end of each slab, and a slab for
  // each size.
  EXPECT_GT(pages, (64 << 20) * 6 / 10);
}

}  // namespace
}  // namespace kvtier
