// RoomShares divides the room of one disk between the tenants: it says what reclaim may take from
// each, and counts what each lost and for which tenant.
//
// Half of the usable capacity (all segments but the reserve) is divided, by FairShares(): each
// tenant demands the bytes of records that it has. A tenant that has no more than its fair share
// loses no block for another's writes. The other half, and unused parts of guarantees, is lent: as
// others write it is taken back, first from the tenants furthest over their fair shares.
//
// The reason for half: reclaim frees a segment once it has copied what must stay of it, at most
// half a segment. Only the fair shares must stay, which are together half of what the segments
// hold. So there is always a segment of which no more than half must stay, once the writes in
// flight to it have ended. Each reclaim therefore gains at least half a segment: the log makes
// progress, and for each byte put at most one more is written. A record larger than half a segment
// leaves less room for copies, and may be declined. Fair shares do not protect blocks that cannot
// be read or written again, nor a segment that is forced because a crash in the middle of a
// reclaim, or copies that failed, have used up the reserve (ChooseVictim).
//
// A disk of one tenant is not divided.
//
// Pure bookkeeping; O(tenants). Executor thread only. Remembers the tenants of the last Set(),
// those with blocks and those that wrote since.
#ifndef KVTIER_TIER_DISK_LOG_ROOM_SHARES_H_
#define KVTIER_TIER_DISK_LOG_ROOM_SHARES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "core/tenant_tag.h"
#include "core/tier_share.h"
#include "tier_disk/log/record_index.h"

namespace kvtier {

// Share of a tenant in the room of a disk, in bytes of records.
struct OwnerShare {
  TenantTag owner{};
  // nullopt: the guarantees of the other tenants leave some of the divided bytes, and the tenants
  // without a share are guaranteed equal parts of that.
  std::optional<TierShare> share;
};

// Room of a disk that a tenant has, and the room it lost since the start.
struct TenantRoom {
  TenantTag owner{};
  uint64_t used_bytes = 0;  // Bytes of live records, headers included.
  uint64_t guaranteed_bytes = 0;
  uint64_t maximum_bytes = UINT64_MAX;
  // Fair share of the tenant if it wants all that it can get, and the others what they have now.
  uint64_t fair_bytes = 0;
  uint64_t evictions = 0;  // Number of its blocks that were dropped to make room.
  // Number of these that were dropped for writes of other tenants.
  uint64_t evictions_suffered = 0;
  // Number of other tenants' blocks that were dropped for its writes.
  uint64_t evictions_caused = 0;

  // Adds the tenant's room on another disk.
  void Add(const TenantRoom& other);
};

// Bytes of records that a reclaim may take from each tenant. It may take blocks as long as any
// bytes are left; the last block may be larger than the bytes left.
class Allowances {
 public:
  uint64_t Of(TenantTag owner) const {
    const auto found = bytes_.find(owner);
    return found == bytes_.end() ? 0 : found->second;
  }
  void Set(TenantTag owner, uint64_t bytes) { bytes_[owner] = bytes; }
  // Takes a block. REQUIRES: Of(owner) > 0.
  void Take(TenantTag owner, uint64_t bytes) {
    uint64_t& left = bytes_.at(owner);
    left -= std::min(left, bytes);
  }

 private:
  absl::flat_hash_map<TenantTag, uint64_t> bytes_;
};

class RoomShares {
 public:
  // Divisor of the usable bytes: the quotient is divided between the tenants.
  static constexpr uint64_t kDividedPart = 2;
  // Tenants from which reclaim may take. kFurthestOver: the tenant furthest over its fair share,
  // and those less than a segment behind it. kAllOver: all that are over their fair shares.
  enum class TakeFrom : uint8_t { kFurthestOver, kAllOver };

  // Makes shares without named tenants. REQUIRES: usable_bytes >= segment_bytes.
  RoomShares(uint64_t usable_bytes, uint64_t segment_bytes)
      : divided_bytes_(usable_bytes / kDividedPart), segment_bytes_(segment_bytes) {}

  // Checks that `divided_bytes` can be divided by the shares. Errors: kInvalidArgument, a share is
  // not as TierShare requires, or the guarantees together exceed the bytes.
  static absl::Status Validate(std::span<const OwnerShare> shares, uint64_t divided_bytes);
  // Sets the tenants, each named once, and their shares; any other tenant with blocks here has no
  // guarantee. Errors: Validate()'s, and nothing changes.
  absl::Status Set(std::span<const OwnerShare> shares, const RecordIndex& index);
  // Returns the maximum sum of the guarantees.
  uint64_t divided_bytes() const { return divided_bytes_; }
  // Returns UINT64_MAX for a tenant without a maximum.
  uint64_t MaximumOf(TenantTag owner) const;

  // Notes a tenant whose blocks the disk had when it was opened.
  void NoteOwner(TenantTag owner) { tenants_.try_emplace(owner); }
  // Notes that a record of the tenant is being put.
  void NoteWrite(TenantTag owner, uint64_t bytes) { tenants_[owner].unpaid += bytes; }
  // Forgets all but about the last segment of each tenant's writes, so that older writes are not
  // charged with evictions.
  void BeginReclaim();
  // Notes that a block of the tenant was dropped to make room. It is charged to the tenant's own
  // recent writes while they last, then to the tenant that wrote most.
  void NoteEviction(TenantTag owner, uint64_t bytes);
  // Notes that a block was dropped because of its tenant's own maximum.
  void NoteOwnEviction(TenantTag owner) { ++tenants_[owner].evictions; }

  // Returns whether at most one tenant has blocks here, wrote or is named.
  bool is_lone() const { return tenants_.size() <= 1; }
  // Returns what a reclaim may take from each tenant for others' writes.
  Allowances MayTake(const RecordIndex& index, TakeFrom take_from) const;
  // Returns all tenants remembered, by tag.
  std::vector<TenantRoom> Report(const RecordIndex& index) const;

 private:
  struct Tenant {
    TierShare share;      // Share of the tenant; no guarantee unless Set() named the tenant.
    uint64_t unpaid = 0;  // Bytes written lately for which nothing was dropped yet.
    uint64_t evictions = 0;
    uint64_t suffered = 0;
    uint64_t caused = 0;
  };
  std::vector<ShareClaim> ClaimsOf(std::span<const OwnedBytes> owners) const;

  const uint64_t divided_bytes_;
  const uint64_t segment_bytes_;
  absl::btree_map<TenantTag, Tenant> tenants_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_LOG_ROOM_SHARES_H_
