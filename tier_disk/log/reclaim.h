// Which segment to reclaim, and what becomes of the blocks in it. Pure decisions;
// disk_reclaim.cc carries them out.
#ifndef KVTIER_TIER_DISK_LOG_RECLAIM_H_
#define KVTIER_TIER_DISK_LOG_RECLAIM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "tier_disk/log/reclaim_order.h"
#include "tier_disk/log/record_index.h"
#include "tier_disk/log/segment_log.h"

namespace kvtier {

// An empty segment if there is one; else the oldest; else, when the reserve is gone
// and nothing can be re-appended, the one that loses the fewest bytes. nullopt:
// every segment is free, open or has writes in flight.
std::optional<SegmentId> ChooseVictim(const SegmentLog& log, const RecordIndex& index);

struct ReclaimPlan {
  std::vector<BlockKey> reappend;  // Parents before children.
  std::vector<BlockKey> drop;      // Children before parents; other segments' blocks too.
};

// Splits the blocks of `victim`: one that `order` finds worth it is re-appended with its
// ancestors, the worthiest first, as far as `budget_bytes` of records go; every other one
// is dropped together with all that descends from it. So no parent goes before its child.
// O(blocks of the segment, with a sort, and dropped blocks).
ReclaimPlan PlanReclaim(const RecordIndex& index, const ReclaimOrder& order, SegmentId victim,
                        uint64_t budget_bytes);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_LOG_RECLAIM_H_
