#include "tier_disk/log/reclaim.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace kvtier {
namespace {

using KeySet = absl::flat_hash_set<BlockKey>;

bool IsIn(const RecordIndex& index, const BlockKey& key, SegmentId segment) {
  const std::optional<DiskEntry> entry = index.Find(key);
  return entry.has_value() && entry->place.segment == segment;
}

using Worths = absl::flat_hash_map<BlockKey, double>;

// Returns the blocks of `victim` that are worth a second write, and those of their ancestors that
// are in it, for without those they are no hit: an ancestor is worth what its worthiest descendant
// is.
Worths WorthKeeping(const RecordIndex& index, const ReclaimOrder& order, SegmentId victim) {
  std::vector<std::pair<double, BlockKey>> worthiest_first;
  for (const BlockKey& key : index.InSegment(victim)) {
    if (const auto worth = order.WorthOf(key)) worthiest_first.emplace_back(*worth, key);
  }
  std::ranges::stable_sort(worthiest_first, std::greater(), &std::pair<double, BlockKey>::first);
  Worths worths;
  for (const auto& [worth, key] : worthiest_first) {
    // Keys do not form cycles (each names its whole prefix), and damage that made one
    // ends here.
    std::optional<BlockKey> next = key;
    while (next && IsIn(index, *next, victim) && worths.emplace(*next, worth).second) {
      next = index.ParentOf(*next);
    }
  }
  return worths;
}

// Returns the blocks worth keeping that fit into the budget, the worthiest first, a child only
// below its kept parent.
std::vector<BlockKey> Keep(const RecordIndex& index, SegmentId victim, const Worths& worths,
                           uint64_t budget_bytes) {
  struct Next {
    double worth = 0;
    uint64_t came = 0;
    BlockKey key;
    // Whether the other one comes first.
    bool operator<(const Next& other) const {
      return worth != other.worth ? worth < other.worth : came > other.came;
    }
  };
  std::priority_queue<Next> next;
  uint64_t came = 0;
  const auto add = [&](const BlockKey& key) {
    if (const auto found = worths.find(key); found != worths.end()) {
      next.push({.worth = found->second, .came = came++, .key = key});
    }
  };
  for (const BlockKey& key : index.InSegment(victim)) {
    const std::optional<BlockKey> parent = index.ParentOf(key);
    if (!(parent && worths.contains(*parent))) add(key);
  }
  std::vector<BlockKey> kept;
  while (!next.empty()) {
    const BlockKey key = next.top().key;
    next.pop();
    const uint64_t bytes = RecordBytes(index.Find(key)->block.length);
    if (bytes > budget_bytes) continue;
    budget_bytes -= bytes;
    kept.push_back(key);
    for (const BlockKey& child : index.ChildrenOf(key)) add(child);
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

ReclaimPlan PlanReclaim(const RecordIndex& index, const ReclaimOrder& order, SegmentId victim,
                        uint64_t budget_bytes) {
  std::vector<BlockKey> kept;
  if (budget_bytes > 0) {
    kept = Keep(index, victim, WorthKeeping(index, order, victim), budget_bytes);
  }
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
