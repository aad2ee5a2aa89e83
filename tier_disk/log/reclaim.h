// Which segment to reclaim, and what becomes of the blocks in it. Pure decisions;
// disk_reclaim.cc carries them out.
#ifndef KVTIER_TIER_DISK_LOG_RECLAIM_H_
#define KVTIER_TIER_DISK_LOG_RECLAIM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "tier_disk/log/reclaim_order.h"
#include "tier_disk/log/record_index.h"
#include "tier_disk/log/room_shares.h"
#include "tier_disk/log/segment_log.h"

namespace kvtier {

// Facts that reclaim decides from. Not owned.
struct ReclaimView {
  const SegmentLog* log = nullptr;
  const RecordIndex* index = nullptr;
  const ReclaimOrder* order = nullptr;
  const RoomShares* shares = nullptr;
};

struct ReclaimChoice {
  SegmentId victim{};
  // Tenants that the reclaim may take from; nullopt: all, whatever they have.
  std::optional<RoomShares::Payers> payers{};
  // Blocks that are dropped first, children before parents: the victim then holds little enough.
  std::vector<BlockKey> trim{};
  bool is_forced = false;  // What must stay and finds no room to be copied into goes all the same.
};

// On a disk of one tenant: an empty segment if there is one; else the oldest; else, when the
// reserve is gone and nothing can be re-appended, the one that loses the fewest bytes.
//
// Of several tenants: an empty segment; else the oldest of which no more than `budget_bytes` must
// stay, where the tenants furthest over their fair shares pay alone; else where all pay that are
// over theirs; else one of which leaves of those tenants are dropped until no more remains. When
// the reserve is used up, by a crash in the middle of a reclaim or by copies that failed, the one
// of which the least must stay is forced.
//
// nullopt: every segment is free, open or has writes in flight, or too much must stay of the
// others.
std::optional<ReclaimChoice> ChooseVictim(const ReclaimView& view, uint64_t budget_bytes);

struct ReclaimTerms {
  SegmentId victim{};
  uint64_t budget_bytes = 0;  // Of records that are re-appended because they are worth it.
  const Allowances* allowances = nullptr;  // Null: anything may be taken.
};

struct ReclaimPlan {
  std::vector<BlockKey> reappend;  // Parents before children.
  // Children before parents; other segments' blocks too. With allowances in the order in which
  // they may be taken.
  std::vector<BlockKey> drop;
  uint64_t held_bytes = 0;  // Records of `reappend` that may not be taken from their tenants.
};

// Splits the blocks of the victim. Those whose drop, with all that descends from them, would take
// more of a tenant than is allowed are re-appended, whatever that comes to; the least worthy are
// the first that are taken. Of the others one that `order` finds worth it is re-appended with its
// ancestors, the worthiest first, as far as the budget goes after that; every other one
// is dropped together with all that descends from it. So no parent goes before its child.
// O(blocks of the segment, with a sort, and blocks that descend from them).
ReclaimPlan PlanReclaim(const RecordIndex& index, const ReclaimOrder& order,
                        const ReclaimTerms& terms);

// Returns blocks of the tenant to drop, children before parents, that make up `bytes` of records or
// all that it has outside a segment that is being reclaimed: the oldest that are not worth a second
// write, with all that descends from them; then the oldest.
std::vector<BlockKey> PlanOwnRoom(const ReclaimView& view, TenantTag owner, uint64_t bytes);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_LOG_RECLAIM_H_
