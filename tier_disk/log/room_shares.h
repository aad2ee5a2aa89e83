// RoomShares divides the room of one disk between the tenants: it says what reclaim may take of
// each, and counts what each lost and for whom.
//
// Half of the usable capacity (all segments but the reserve) is divided, by FairShares(): each
// tenant wants the bytes of records that it has. A tenant that has no more than its fair share
// loses no block for another's writes. The other half, and what tenants leave of their guarantees,
// is lent: it is taken back, first of the tenants furthest over their fair shares, as others write.
//
// Why half: reclaim frees a segment once it has copied what must stay of it, half a segment at
// most. All that must stay are the fair shares, together half of what the segments hold, so there
// is always one of which no more than half must stay, once the writes under way to it have ended.
// Each reclaim therefore gains half a segment at least: the log makes progress, and of each byte
// put at most one more is written. A record that is larger than half a segment leaves less for
// copies, and may be declined. Fair shares are not kept of blocks that cannot be read or written
// again, nor of a segment that is forced because a crash in the middle of a reclaim, or copies that
// failed, have used up the reserve (ChooseVictim).
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

// Share of a tenant of the room of a disk, in bytes of records.
struct OwnerShare {
  TenantTag owner{};
  // nullopt: an equal part of what the shares that are set leave, all of it guaranteed.
  std::optional<TierShare> share;
};

// Room of a disk that a tenant has, and the room it lost since the start.
struct TenantRoom {
  TenantTag owner{};
  uint64_t used_bytes = 0;  // Of live records, headers included.
  uint64_t guaranteed_bytes = 0;
  uint64_t maximum_bytes = UINT64_MAX;
  // Bytes that it could have beside what the others have now, and that nobody could take back.
  uint64_t fair_bytes = 0;
  uint64_t evictions = 0;           // Its blocks that were dropped to make room.
  uint64_t evictions_suffered = 0;  // Of these: for writes of other tenants.
  uint64_t evictions_caused = 0;    // Blocks of others that were dropped for its writes.

  // Adds what the tenant has of another disk.
  void Add(const TenantRoom& other);
};

// Bytes of records that a reclaim may take of each tenant: blocks, as long as any are left, the
// last of which may be larger than what is left.
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
  static constexpr uint64_t kDividedPart = 2;  // One in so many usable bytes is divided.
  // Tenants that reclaim may take from: those within a segment of the one furthest over its fair
  // share, or all that are over theirs.
  enum class Payers : uint8_t { kFurthestOver, kAllOver };

  // REQUIRES: usable_bytes >= segment_bytes.
  RoomShares(uint64_t usable_bytes, uint64_t segment_bytes)
      : divided_bytes_(usable_bytes / kDividedPart), segment_bytes_(segment_bytes) {}

  // Returns whether the shares divide so many bytes. Errors: kInvalidArgument, a share is not what
  // TierShare says, or the guarantees exceed the bytes together.
  static absl::Status Validate(std::span<const OwnerShare> shares, uint64_t divided_bytes);
  // Names the tenants there are, each once, and their shares; any other one with blocks here has
  // no guarantee. Errors: Validate()'s, and nothing changes.
  absl::Status Set(std::span<const OwnerShare> shares, const RecordIndex& index);
  // Returns what the guarantees can be together.
  uint64_t divided_bytes() const { return divided_bytes_; }
  // Returns UINT64_MAX of a tenant without a maximum.
  uint64_t MaximumOf(TenantTag owner) const;

  // Notes a tenant whose blocks the disk had when it was opened.
  void NoteOwner(TenantTag owner) { tenants_.try_emplace(owner); }
  // Notes that a record of the tenant is being put.
  void NoteWrite(TenantTag owner, uint64_t bytes) { tenants_[owner].unpaid += bytes; }
  // Lets all but about the last segment of each tenant's writes cause nothing any more.
  void BeginReclaim();
  // Notes that a block of the tenant was dropped to make room: for its own writes as far as these
  // go, else for those of whoever wrote most.
  void NoteEviction(TenantTag owner, uint64_t bytes);
  // Notes the same of a block that its tenant's maximum left no room for.
  void NoteOwnEviction(TenantTag owner) { ++tenants_[owner].evictions; }

  // Returns whether no more than one tenant has blocks here, wrote or is named.
  bool is_lone() const { return tenants_.size() <= 1; }
  // Returns what a reclaim may take of each tenant for others' writes.
  Allowances MayTake(const RecordIndex& index, Payers payers) const;
  // Returns all tenants remembered, by tag.
  std::vector<TenantRoom> Report(const RecordIndex& index) const;

 private:
  struct Tenant {
    TierShare share;      // Without Set(): no guarantee.
    uint64_t unpaid = 0;  // Bytes written lately that nothing was dropped for yet.
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
