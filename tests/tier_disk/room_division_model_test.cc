// Compares the arithmetic of RoomShares with a plain reference, over a million writes, drops and
// changes of shares. The reference finds fair shares by trying levels: a tenant beyond its
// guarantee has the level times its weight, and the level is right when the room is used up.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/tier_share.h"
#include "tests/testing/numbered_key.h"
#include "tests/testing/patience.h"
#include "tests/testing/test_seed.h"
#include "tier_disk/log/record.h"
#include "tier_disk/log/record_index.h"
#include "tier_disk/log/room_shares.h"

namespace kvtier {
namespace {

constexpr uint32_t kSegments = 12;
constexpr uint64_t kSegmentBytes = uint64_t{1} << 19;
constexpr uint64_t kUsableBytes = (kSegments - 1) * kSegmentBytes;
constexpr uint64_t kDividedBytes = kUsableBytes / 2;
constexpr std::array<uint64_t, 4> kLengths = {4096, 20'000, 65'536, 100'001};
constexpr size_t kTenants = 6;
constexpr int kSteps = testing::kSanitized ? 100'000 : 1'000'000;
constexpr int kStepsBetweenReports = 16;
// Bytes by which a fair share may differ from the reference's, which does not hand out whole bytes.
constexpr double kRounding = kTenants + 1;
constexpr int kHalvings = 64;

TenantTag TagOf(size_t tenant) { return static_cast<TenantTag>(tenant + 1); }

// Claim is what a tenant has or wants, and its share, as the reference sees it.
struct Claim {
  TierShare share;
  double wanted = 0;
};

// Returns what the claim gets at a level.
double AtLevel(const Claim& claim, double level) {
  const auto guaranteed = static_cast<double>(claim.share.guaranteed);
  const double most = std::min(claim.wanted, static_cast<double>(claim.share.maximum));
  return std::min(most, guaranteed + level * claim.share.weight);
}

std::vector<double> PlainShares(const std::vector<Claim>& claims) {
  double low = 0;
  double high = kDividedBytes;
  for (int i = 0; i < kHalvings; ++i) {
    const double level = (low + high) / 2;
    double sum = 0;
    for (const Claim& claim : claims) sum += AtLevel(claim, level);
    (sum > static_cast<double>(kDividedBytes) ? high : low) = level;
  }
  std::vector<double> fair;
  fair.reserve(claims.size());
  for (const Claim& claim : claims) fair.push_back(AtLevel(claim, low));
  return fair;
}

// PlainTenant is what the reference remembers of a tenant.
struct PlainTenant {
  TierShare share;
  uint64_t unpaid = 0;
  uint64_t evictions = 0;
  uint64_t suffered = 0;
  uint64_t caused = 0;
};

// ModelDisk has blocks of several tenants in a log, and does the same to RoomShares and the
// reference.
class ModelDisk {
 public:
  explicit ModelDisk(uint64_t seed) : random_(seed) {}

  void Step() {
    // Draws the tenants unequally, and another one most often from time to time.
    if (random_() % 5000 == 0) flood_ = random_() % kTenants;
    const size_t tenant = random_() % 2 == 0 ? flood_ : random_() % kTenants;
    const uint64_t roll = random_() % 1000;
    if (roll < 650) {
      Put(tenant);
    } else if (roll < 990) {
      EraseOne(roll < 700);
    } else {
      SetShares();
    }
  }

  // Compares what a reclaim may take from each tenant.
  void CheckAllowances() const {
    std::vector<Claim> claims;
    std::vector<size_t> owners;
    for (size_t i = 0; i < kTenants; ++i) {
      if (bytes_[i] == 0) continue;
      owners.push_back(i);
      claims.push_back({ShareOf(i), static_cast<double>(bytes_[i])});
    }
    const std::vector<double> fair = PlainShares(claims);
    std::vector<double> over;
    double furthest = 0;
    for (size_t i = 0; i < owners.size(); ++i) {
      over.push_back(claims[i].wanted - fair[i]);
      furthest = std::max(furthest, over.back());
    }
    const Allowances all = shares_.MayTake(index_, RoomShares::TakeFrom::kAllOver);
    const Allowances some = shares_.MayTake(index_, RoomShares::TakeFrom::kFurthestOver);
    for (size_t i = 0; i < owners.size(); ++i) {
      const TenantTag owner = TagOf(owners[i]);
      ASSERT_NEAR(static_cast<double>(all.Of(owner)), over[i], kRounding) << "tenant " << owners[i];
      // Tenants within a segment of the furthest pay with it.
      const double nearer = furthest - over[i] - static_cast<double>(kSegmentBytes);
      if (std::abs(nearer) <= 2 * kRounding) continue;
      ASSERT_EQ(some.Of(owner), nearer < 0 ? all.Of(owner) : 0) << "tenant " << owners[i];
    }
  }

  void CheckReport() const {
    const std::vector<TenantRoom> rooms = shares_.Report(index_);
    ASSERT_EQ(rooms.size(), known_.size());
    ASSERT_EQ(shares_.is_lone(), known_.size() <= 1);
    for (const TenantRoom& room : rooms) {
      const auto at = static_cast<size_t>(room.owner) - 1;
      ASSERT_TRUE(known_.contains(at)) << at;
      const PlainTenant& plain = known_.at(at);
      ASSERT_EQ(room.used_bytes, bytes_[at]);
      ASSERT_EQ(room.guaranteed_bytes, plain.share.guaranteed);
      ASSERT_EQ(room.maximum_bytes, plain.share.maximum);
      ASSERT_EQ(shares_.MaximumOf(room.owner), plain.share.maximum);
      ASSERT_EQ(room.evictions, plain.evictions);
      ASSERT_EQ(room.evictions_suffered, plain.suffered);
      ASSERT_EQ(room.evictions_caused, plain.caused);
      // The others want what they have, and this tenant all that it can get.
      std::vector<Claim> claims;
      size_t own = 0;
      for (const auto& [tenant, known] : known_) {
        if (tenant == at) own = claims.size();
        const double wanted =
            tenant == at ? 2.0 * kUsableBytes : static_cast<double>(bytes_[tenant]);
        claims.push_back({known.share, wanted});
      }
      ASSERT_NEAR(static_cast<double>(room.fair_bytes), PlainShares(claims)[own], kRounding) << at;
    }
  }

 private:
  struct Block {
    BlockKey key;
    size_t tenant = 0;
    uint64_t bytes = 0;
  };

  TierShare ShareOf(size_t tenant) const {
    const auto found = known_.find(tenant);
    return found == known_.end() ? TierShare{} : found->second.share;
  }

  // Appends a block to the log; where the segment is full, the next one is freed first.
  void Put(size_t tenant) {
    const uint64_t length = kLengths[random_() % kLengths.size()];
    const uint64_t bytes = RecordBytes(length);
    shares_.NoteWrite(TagOf(tenant), bytes);
    known_[tenant].unpaid += bytes;
    if (offset_ + bytes > kSegmentBytes) FreeNextSegment();
    const Block block{.key = testing::NumberedKey(++number_), .tenant = tenant, .bytes = bytes};
    index_.Insert({.key = block.key, .length = length, .owner = TagOf(tenant)},
                  {.segment = SegmentId{segment_}, .generation = generation_, .offset = offset_});
    log_[segment_].push_back(block);
    bytes_[tenant] += bytes;
    offset_ += bytes;
  }
  void FreeNextSegment() {
    segment_ = (segment_ + 1) % kSegments;
    offset_ = 0;
    ++generation_;
    shares_.BeginReclaim();
    for (auto& [tenant, known] : known_) known.unpaid = std::min(known.unpaid, kSegmentBytes);
    while (!log_[segment_].empty()) Drop(segment_, log_[segment_].size() - 1, Why::kForRoom);
  }
  // Drops a block for no other's write; with `is_own_maximum` its tenant had too much.
  void EraseOne(bool is_own_maximum) {
    const auto segment = static_cast<uint32_t>(random_() % kSegments);
    if (log_[segment].empty()) return;
    Drop(segment, random_() % log_[segment].size(),
         is_own_maximum ? Why::kOwnMaximum : Why::kErased);
  }

  enum class Why : uint8_t { kForRoom, kOwnMaximum, kErased };
  void Drop(uint32_t segment, size_t at, Why why) {
    std::vector<Block>& blocks = log_[segment];
    const Block block = blocks[at];
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at));
    index_.Erase(block.key);
    bytes_[block.tenant] -= block.bytes;
    if (why == Why::kErased) return;
    PlainTenant& victim = known_[block.tenant];
    ++victim.evictions;
    if (why == Why::kOwnMaximum) return shares_.NoteOwnEviction(TagOf(block.tenant));
    shares_.NoteEviction(TagOf(block.tenant), block.bytes);
    // It is charged to the tenant's own writes, or else to the first that wrote most.
    PlainTenant* cause = &victim;
    for (auto& [tenant, known] : known_) {
      if (victim.unpaid == 0 && known.unpaid > cause->unpaid) cause = &known;
    }
    cause->unpaid -= std::min(cause->unpaid, block.bytes);
    if (cause == &victim) return;
    ++victim.suffered;
    ++cause->caused;
  }

  // Names some of the tenants, with shares or without.
  void SetShares() {
    std::vector<OwnerShare> shares;
    std::map<size_t, PlainTenant> named;
    uint64_t left = kDividedBytes;
    uint64_t defaults = 0;
    for (size_t i = 0; i < kTenants; ++i) {
      // Whoever has blocks is remembered, without a guarantee.
      if (bytes_[i] > 0) named[i] = known_[i];
      if (bytes_[i] > 0) named[i].share = {};
      if (random_() % 8 == 0) continue;
      named[i] = known_[i];
      OwnerShare& share = shares.emplace_back(OwnerShare{.owner = TagOf(i)});
      if (random_() % 3 == 0) {
        ++defaults;
        continue;
      }
      share.share = TierShare{.guaranteed = random_() % (left / 2 + 1)};
      if (random_() % 2 == 0) {
        share.share->maximum = share.share->guaranteed + random_() % kDividedBytes;
      }
      share.share->weight = static_cast<uint32_t>(1 + random_() % kMaxShareWeight);
      left -= share.share->guaranteed;
    }
    for (const OwnerShare& share : shares) {
      named[static_cast<size_t>(share.owner) - 1].share =
          share.share.value_or(TierShare{.guaranteed = defaults == 0 ? 0 : left / defaults});
    }
    known_ = std::move(named);
    ASSERT_EQ(shares_.Set(shares, index_), absl::OkStatus());
  }

  std::mt19937_64 random_;
  size_t flood_ = 0;  // Tenant that writes most.
  RecordIndex index_{kSegments};
  RoomShares shares_{kUsableBytes, kSegmentBytes};
  std::map<size_t, PlainTenant> known_;
  std::array<uint64_t, kTenants> bytes_{};
  std::array<std::vector<Block>, kSegments> log_;
  uint32_t segment_ = 0;     // Segment to which blocks are appended.
  uint64_t offset_ = 0;      // Place of the next record in it.
  uint64_t generation_ = 1;  // Number of the segment's use.
  uint64_t number_ = 0;      // Number of the last block.
};

TEST(RoomDivisionModelTest, AMillionStepsDivideTheRoomAsAPlainReferenceDoes) {
  ModelDisk disk(testing::TestSeed());
  for (int step = 0; step < kSteps; ++step) {
    disk.Step();
    if (!HasFatalFailure()) disk.CheckAllowances();
    if (!HasFatalFailure() && step % kStepsBetweenReports == 0) disk.CheckReport();
    ASSERT_FALSE(HasFatalFailure()) << "step " << step;
  }
}

}  // namespace
}  // namespace kvtier
