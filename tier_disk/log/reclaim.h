// Chooses the segment to reclaim, and what happens to the blocks in it. Pure decisions;
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

// State that reclaim decides from. Borrowed.
struct ReclaimView {
  const SegmentLog* log = nullptr;
  const RecordIndex* index = nullptr;
  const ReclaimOrder* order = nullptr;
  const RoomShares* shares = nullptr;
};

struct ReclaimChoice {
  SegmentId victim{};
  // Tenants from which the reclaim may take blocks; nullopt: all, whatever they have.
  std::optional<RoomShares::TakeFrom> take_from{};
  // Blocks that are dropped first, children before parents, so that the victim holds few enough
  // bytes.
  std::vector<BlockKey> trim{};
  // Whether blocks that must stay are dropped, too, if there is no room for their copies.
  bool is_forced = false;
};

// Chooses the segment to reclaim. On a disk of one tenant, it is an empty segment if there is one;
// else, while another segment is free, the oldest; else, as little can be re-appended, the one with
// the fewest live bytes.
//
// With several tenants, the victim is the first of these that exists: an empty segment; the oldest
// segment of which at most `budget_bytes` must stay if only the tenants furthest over their fair
// shares lose blocks; the oldest such segment if all tenants over their fair shares lose blocks; a
// segment for which leaf blocks of these tenants are dropped (`trim`) until at most `budget_bytes`
// must stay. When the reserve is used up, by a crash in the middle of a reclaim or by copies that
// failed, the victim is the segment of which the least must stay, and the choice is_forced.
//
// nullopt: every segment is free, open or has writes in flight, or too much of every other segment
// must stay.
std::optional<ReclaimChoice> ChooseVictim(const ReclaimView& view, uint64_t budget_bytes);

struct ReclaimTerms {
  SegmentId victim{};
  // Maximum bytes of records that are re-appended because ReclaimOrder finds them worth it.
  uint64_t budget_bytes = 0;
  // Allowances of the tenants; null: any block may be dropped.
  const Allowances* allowances = nullptr;
};

struct ReclaimPlan {
  std::vector<BlockKey> reappend;  // Parents before children.
  // Children before parents; includes blocks of other segments. With allowances, in the order in
  // which they may be taken.
  std::vector<BlockKey> drop;
  uint64_t held_bytes = 0;  // Bytes of blocks that may not be taken from their tenants.
};

// Splits the blocks of the victim. Blocks whose drop, with all their descendants, would take more
// of a tenant than is allowed are re-appended, whatever the total; the least worthy blocks are
// taken first. Of the other blocks, one that `order` finds worth it is re-appended with its
// ancestors, the worthiest first, as far as the rest of the budget goes. Every other block is
// dropped together with its descendants, so no parent is dropped before its child. O(blocks of the
// segment, with a sort, and blocks that descend from them).
ReclaimPlan PlanReclaim(const RecordIndex& index, const ReclaimOrder& order,
                        const ReclaimTerms& terms);

// Returns blocks of the tenant to drop, children before parents, that make up `bytes` of records,
// or all blocks of the tenant outside a segment that is being reclaimed. The oldest that are not
// worth a second write come first, with their descendants, then the oldest of the rest.
std::vector<BlockKey> PlanOwnRoom(const ReclaimView& view, TenantTag owner, uint64_t bytes);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_LOG_RECLAIM_H_
