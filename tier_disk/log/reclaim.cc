#include "tier_disk/log/reclaim.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace kvtier {
namespace {

using KeySet = absl::flat_hash_set<BlockKey>;

bool IsIn(const RecordIndex& index, const BlockKey& key, SegmentId segment) {
  const std::optional<DiskEntry> entry = index.Find(key);
  return entry.has_value() && entry->place.segment == segment;
}

// Blocks of `victim` that were of use since they were appended, and what of their
// ancestors is in it: without those they are no hit.
KeySet WorthKeeping(const RecordIndex& index, SegmentId victim) {
  KeySet worth;
  for (const BlockKey& key : index.InSegment(victim)) {
    if (!index.IsWarm(key)) continue;
    // Keys do not form cycles (each names its whole prefix), and damage that made one
    // ends here.
    std::optional<BlockKey> next = key;
    while (next && IsIn(index, *next, victim) && worth.insert(*next).second) {
      next = index.ParentOf(*next);
    }
  }
  return worth;
}

// The blocks worth keeping that fit into the budget, a child only below its kept parent.
std::vector<BlockKey> Keep(const RecordIndex& index, SegmentId victim, const KeySet& worth,
                           uint64_t budget_bytes) {
  std::deque<BlockKey> next;
  for (const BlockKey& key : index.InSegment(victim)) {
    const std::optional<BlockKey> parent = index.ParentOf(key);
    if (worth.contains(key) && !(parent && worth.contains(*parent))) next.push_back(key);
  }
  std::vector<BlockKey> kept;
  for (; !next.empty(); next.pop_front()) {
    const uint64_t bytes = RecordBytes(index.Find(next.front())->block.length);
    if (bytes > budget_bytes) continue;
    budget_bytes -= bytes;
    kept.push_back(next.front());
    for (const BlockKey& child : index.ChildrenOf(next.front())) {
      if (worth.contains(child)) next.push_back(child);
    }
  }
  return kept;
}

// Appends `root` and all that descends from it to `drop`, children first.
void DropWithDescendants(const RecordIndex& index, const BlockKey& root, KeySet* seen,
                         std::vector<BlockKey>* drop) {
  struct Visit {
    BlockKey key;
    bool children_done = false;
  };
  std::vector<Visit> stack;
  if (seen->insert(root).second) stack.push_back({root});
  while (!stack.empty()) {
    if (std::exchange(stack.back().children_done, true)) {
      drop->push_back(stack.back().key);
      stack.pop_back();
      continue;
    }
    for (const BlockKey& child : index.ChildrenOf(stack.back().key)) {
      if (seen->insert(child).second) stack.push_back({child});
    }
  }
}

}  // namespace

std::optional<SegmentId> ChooseVictim(const SegmentLog& log, const RecordIndex& index) {
  const std::vector<SegmentId> candidates = log.Reclaimable();
  if (candidates.empty()) return std::nullopt;
  const auto emptiest = std::min_element(
      candidates.begin(), candidates.end(),
      [&](SegmentId a, SegmentId b) { return index.live_bytes(a) < index.live_bytes(b); });
  if (index.live_bytes(*emptiest) == 0 || log.free_segments() == 0) return *emptiest;
  return candidates.front();
}

ReclaimPlan PlanReclaim(const RecordIndex& index, SegmentId victim, uint64_t budget_bytes) {
  const KeySet worth = WorthKeeping(index, victim);
  const std::vector<BlockKey> kept = Keep(index, victim, worth, budget_bytes);
  const KeySet kept_set(kept.begin(), kept.end());
  ReclaimPlan plan;
  KeySet dropped;
  for (const BlockKey& key : index.InSegment(victim)) {
    if (!kept_set.contains(key)) DropWithDescendants(index, key, &dropped, &plan.drop);
  }
  // A dropped block may have kept ones below it, by way of another segment.
  std::copy_if(kept.begin(), kept.end(), std::back_inserter(plan.reappend),
               [&](const BlockKey& key) { return !dropped.contains(key); });
  return plan;
}

}  // namespace kvtier
