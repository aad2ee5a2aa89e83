// Runs random puts, touches, erases, shares and restarts of several tenants on one disk, against a
// plain list of what each has.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/tier_share.h"
#include "tests/testing/patience.h"
#include "tests/testing/test_seed.h"
#include "tests/tier_disk/disk_rig.h"
#include "tier_disk/log/record.h"

namespace kvtier {
namespace {

using testing::DiskForm;
using testing::DiskKey;
using testing::DiskRig;

constexpr uint64_t kSegmentBytes = uint64_t{1} << 20;
constexpr size_t kTenants = 4;
constexpr uint64_t kNumbers = 600;  // Number of different blocks of all tenants.
constexpr int kSteps = testing::kSanitized ? 1500 : 4000;

// A block's tenant, length and parent are functions of its number. A chain belongs to one tenant.
size_t TenantOf(uint64_t number) { return number / 10 % kTenants; }
uint64_t LengthOf(uint64_t number) {
  constexpr uint64_t kLengths[] = {4096, 100000, 65536, 8192, 400000, 200001, 40000};
  return kLengths[number % std::size(kLengths)];
}
std::optional<uint64_t> ParentOf(uint64_t number) {
  if (number % 10 == 0) return std::nullopt;
  return number - 1;
}
std::string NameOf(size_t tenant) { return absl::StrCat("tenant-", tenant); }

class Model {
 public:
  Model(uint32_t segments, uint64_t seed)
      : random_(seed),
        divided_(uint64_t{segments - 1} * kSegmentBytes / 2),
        rig_(DiskForm::kSim, {.segments = segments, .segment_bytes = kSegmentBytes, .seed = seed},
             "", [this](const BlockKey& key) { Dropped(key); }) {
    for (uint64_t i = 0; i < kNumbers; ++i) numbers_[DiskKey(i)] = i;
  }
  void Open() {
    ASSERT_EQ(rig_.Open(), absl::OkStatus());
    ASSERT_EQ(rig_.tier->SetShares(Shares()), absl::OkStatus());
  }
  void Step();
  void Check() const;
  uint64_t taken_for_others() const { return taken_for_others_; }

 private:
  void Put(uint64_t number);
  void ChangeShares();
  void Dropped(const BlockKey& key);
  std::vector<OwnerShare> Shares() const;
  TierShare ShareOf(size_t tenant) const;
  uint64_t Used(size_t tenant) const;
  std::array<uint64_t, kTenants> Fair() const;

  std::mt19937_64 random_;
  const uint64_t divided_;
  std::map<BlockKey, uint64_t> numbers_;
  std::map<uint64_t, uint64_t> here_;  // Number to bytes of its record.
  std::array<std::optional<TierShare>, kTenants> set_;
  // Fair shares at the start of the step, in bytes; they grow when other tenants lose blocks.
  std::array<uint64_t, kTenants> fair_{};
  std::optional<size_t> writer_;
  std::optional<uint64_t> erasing_;
  std::array<uint64_t, kTenants> evictions_{};
  uint64_t taken_for_others_ = 0;
  DiskRig rig_;
};

std::vector<OwnerShare> Model::Shares() const {
  std::vector<OwnerShare> shares;
  for (size_t i = 0; i < kTenants; ++i) {
    shares.push_back({.owner = TenantTagOf(NameOf(i)), .share = set_[i]});
  }
  return shares;
}

TierShare Model::ShareOf(size_t tenant) const {
  if (set_[tenant].has_value()) return *set_[tenant];
  uint64_t left = divided_;
  uint64_t others = 0;
  for (const auto& share : set_) {
    if (share.has_value())
      left -= share->guaranteed;
    else
      ++others;
  }
  return {.guaranteed = left / others};
}

uint64_t Model::Used(size_t tenant) const {
  uint64_t used = 0;
  for (const auto& [number, bytes] : here_) used += TenantOf(number) == tenant ? bytes : 0;
  return used;
}

std::array<uint64_t, kTenants> Model::Fair() const {
  std::vector<ShareClaim> claims;
  for (size_t i = 0; i < kTenants; ++i) claims.push_back({ShareOf(i), Used(i)});
  std::array<uint64_t, kTenants> fair{};
  std::ranges::copy(FairShares(divided_, claims), fair.begin());
  return fair;
}

void Model::Dropped(const BlockKey& key) {
  const uint64_t number = numbers_.at(key);
  if (number == erasing_) return;
  const size_t tenant = TenantOf(number);
  for (const auto& [other, bytes] : here_) {
    ASSERT_NE(ParentOf(other), number) << "dropped before its child " << other;
  }
  if (tenant != writer_) {
    EXPECT_GT(Used(tenant), ShareOf(tenant).guaranteed) << NameOf(tenant);
    EXPECT_GT(Used(tenant), fair_[tenant]) << NameOf(tenant);
    ++taken_for_others_;
  }
  ++evictions_[tenant];
  ASSERT_EQ(here_.erase(number), 1) << number;
}

void Model::Put(uint64_t number) {
  const size_t tenant = TenantOf(number);
  const uint64_t bytes = RecordBytes(LengthOf(number));
  const bool was_here = here_.contains(number);
  writer_ = tenant;
  const absl::Status put = rig_.Put(number, LengthOf(number), ParentOf(number), NameOf(tenant));
  writer_.reset();
  if (put.ok()) {
    here_[number] = bytes;
  } else {
    // Reclaim can always make room, so only the tenant's maximum refuses a block.
    ASSERT_TRUE(absl::IsResourceExhausted(put)) << put;
    ASSERT_GT(Used(tenant) + bytes, ShareOf(tenant).maximum) << put;
    return;
  }
  if (was_here) return;
  ASSERT_LE(Used(tenant), ShareOf(tenant).maximum) << NameOf(tenant);
}

void Model::ChangeShares() {
  uint64_t left = divided_;
  for (std::optional<TierShare>& share : set_) {
    share.reset();
    if (random_() % 2 == 0) continue;
    share.emplace();
    share->guaranteed = random_() % 3 == 0 ? left : random_() % (left + 1);
    left -= share->guaranteed;
    if (random_() % 3 == 0) share->maximum = share->guaranteed + random_() % divided_;
    share->weight = 1 + random_() % 10;
  }
  ASSERT_EQ(rig_.tier->SetShares(Shares()), absl::OkStatus());
}

void Model::Step() {
  fair_ = Fair();
  // Draws most blocks from one tenant, nearly always the first, so that it floods the disk.
  const uint64_t flood = random_() % 400 == 0 ? random_() % kTenants : 0;
  uint64_t number = random_() % kNumbers;
  if (random_() % 3 != 0) number = (number / 40 * 40 + 10 * flood + number % 10) % kNumbers;
  const uint64_t roll = random_() % 1000;
  if (roll < 600) {
    Put(number);
  } else if (roll < 900) {
    rig_.tier->Touch(DiskKey(number), {});
  } else if (roll < 970) {
    erasing_ = number;
    ASSERT_EQ(rig_.Erase(number), absl::OkStatus());
    erasing_.reset();
    here_.erase(number);
  } else if (roll < 990) {
    ChangeShares();
  } else {
    Open();
    evictions_.fill(0);
  }
}

void Model::Check() const {
  rig_.tier->Audit();
  ASSERT_EQ(rig_.tier->block_count(), here_.size());
  const std::vector<TenantRoom> rooms = rig_.tier->Tenants();
  ASSERT_EQ(rooms.size(), kTenants);
  uint64_t suffered = 0;
  uint64_t caused = 0;
  for (const TenantRoom& room : rooms) {
    size_t tenant = 0;
    while (TenantTagOf(NameOf(tenant)) != room.owner) ++tenant;
    ASSERT_EQ(room.used_bytes, Used(tenant));
    ASSERT_EQ(room.guaranteed_bytes, ShareOf(tenant).guaranteed);
    ASSERT_EQ(room.maximum_bytes, ShareOf(tenant).maximum);
    ASSERT_EQ(room.evictions, evictions_[tenant]);
    ASSERT_LE(room.evictions_suffered, room.evictions);
    suffered += room.evictions_suffered;
    caused += room.evictions_caused;
  }
  ASSERT_EQ(suffered, caused);
}

TEST(RoomSharesModelTest, NoTenantLosesOfItsFairShareForOthersAndEachPutFindsRoom) {
  const uint64_t seed = testing::TestSeed();
  constexpr uint64_t kRounds = testing::kSanitized ? 2 : 12;
  uint64_t taken_for_others = 0;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint32_t segments = 4 + round % 4 * 4;
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", round ", round, ", ", segments, " segments"));
    Model model(segments, seed + round);
    model.Open();
    for (int i = 0; i < kSteps && !::testing::Test::HasFailure(); ++i) {
      model.Step();
      model.Check();
    }
    if (HasFailure()) return;
    taken_for_others += model.taken_for_others();
  }
  EXPECT_GT(taken_for_others, 80 * kRounds);  // Lent room was taken back.
}

}  // namespace
}  // namespace kvtier
