#include "tier_disk/log/reclaim.h"

#include <algorithm>
#include <functional>
#include <limits>
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

uint64_t BytesOf(const RecordIndex& index, const BlockKey& key) {
  return RecordBytes(index.Find(key)->block.length);
}

using Worths = absl::flat_hash_map<BlockKey, double>;

// Returns the blocks of `victim` that are worth a second write, and their ancestors in it, because
// without those they cannot be hit: an ancestor is worth as much as its worthiest descendant.
Worths WorthKeeping(const RecordIndex& index, const ReclaimOrder& order, SegmentId victim) {
  std::vector<std::pair<double, BlockKey>> worthiest_first;
  for (const BlockKey& key : index.InSegment(victim)) {
    if (const auto worth = order.WorthOf(key)) worthiest_first.emplace_back(*worth, key);
  }
  std::ranges::stable_sort(worthiest_first, std::greater(), &std::pair<double, BlockKey>::first);
  Worths worths;
  for (const auto& [worth, key] : worthiest_first) {
    // Keys do not form cycles (each names its whole prefix); a cycle made by damage ends here.
    std::optional<BlockKey> next = key;
    while (next && IsIn(index, *next, victim) && worths.emplace(*next, worth).second) {
      next = index.ParentOf(*next);
    }
  }
  return worths;
}

// Worth of a block that may not be taken from its tenant.
constexpr double kHeldWorth = std::numeric_limits<double>::infinity();

// Returns the blocks worth keeping that fit into the budget, the worthiest first, a child only
// below its kept parent. Blocks of kHeldWorth cost nothing.
std::vector<BlockKey> Keep(const RecordIndex& index, SegmentId victim, const Worths& worths,
                           uint64_t budget_bytes) {
  struct Next {
    double worth = 0;
    uint64_t came = 0;
    BlockKey key;
    // Returns whether the other one comes first.
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
    const auto [worth, unused, key] = next.top();
    next.pop();
    const uint64_t bytes = worth == kHeldWorth ? 0 : BytesOf(index, key);
    if (bytes > budget_bytes) continue;
    budget_bytes -= bytes;
    kept.push_back(key);
    for (const BlockKey& child : index.ChildrenOf(key)) add(child);
  }
  return kept;
}

// Appends `root` and its descendants to `drop`, children first.
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

// HeldBlocks takes blocks from their tenants as far as the allowances go, and holds the others.
class HeldBlocks {
 public:
  HeldBlocks(const RecordIndex& index, const Allowances& allowances)
      : index_(index), left_(allowances) {}

  // Takes the block and its descendants; holds the block if too little may be taken.
  void TakeOrHold(const BlockKey& key);
  bool Contains(const BlockKey& key) const { return held_.contains(key); }

 private:
  // Returns whether the block, and its descendants that are not taken yet, were taken.
  bool Take(const BlockKey& root);

  const RecordIndex& index_;
  Allowances left_;
  KeySet taken_;
  // Includes all ancestors of held blocks: none of those can be dropped without them.
  KeySet held_;
};

bool HeldBlocks::Take(const BlockKey& root) {
  const TenantTag owner = *index_.OwnerOf(root);
  const uint64_t most = left_.Of(owner);
  uint64_t bytes = 0;
  KeySet found;
  std::vector<BlockKey> next{root};
  while (!next.empty()) {
    const BlockKey key = next.back();
    next.pop_back();
    if (taken_.contains(key) || !found.insert(key).second) continue;
    // Leaves out the root's bytes: it may be taken as long as any bytes are left.
    if (key != root) bytes += BytesOf(index_, key);
    // Descendants of a tenant's block belong to the same tenant.
    if (bytes >= most || held_.contains(key)) return false;
    for (const BlockKey& child : index_.ChildrenOf(key)) next.push_back(child);
  }
  if (found.empty()) return true;  // The block was taken already.
  left_.Take(owner, bytes + BytesOf(index_, root));
  taken_.merge(found);
  return true;
}

void HeldBlocks::TakeOrHold(const BlockKey& key) {
  if (held_.contains(key) || Take(key)) return;
  std::optional<BlockKey> next = key;
  while (next && index_.Contains(*next) && held_.insert(*next).second) {
    next = index_.ParentOf(*next);
  }
}

// Returns the blocks of `victim`, the least worthy first; among blocks worth nothing, the newest
// first.
std::vector<BlockKey> LeastWorthyFirst(const RecordIndex& index, SegmentId victim,
                                       const Worths& worths) {
  std::vector<BlockKey> keys = index.InSegment(victim);
  std::ranges::reverse(keys);
  std::ranges::stable_sort(keys, {}, [&](const BlockKey& key) {
    const auto found = worths.find(key);
    return found == worths.end() ? -1.0 : found->second;
  });
  return keys;
}

// Gives kHeldWorth to the blocks of the victim that may not be taken; returns their bytes.
uint64_t Hold(const RecordIndex& index, const ReclaimTerms& terms, Worths* worths) {
  const std::vector<BlockKey> keys = LeastWorthyFirst(index, terms.victim, *worths);
  HeldBlocks held(index, *terms.allowances);
  for (const BlockKey& key : keys) held.TakeOrHold(key);
  uint64_t bytes = 0;
  for (const BlockKey& key : keys) {
    if (!held.Contains(key)) continue;
    bytes += BytesOf(index, key);
    worths->insert_or_assign(key, kHeldWorth);
  }
  return bytes;
}

// Returns the minimum bytes of the segment that must stay: those beyond what may be taken.
uint64_t LeastHeld(const RecordIndex& index, SegmentId segment, const Allowances& allowances) {
  uint64_t held = 0;
  for (const OwnedBytes& owned : index.OwnersIn(segment)) {
    held += owned.bytes - std::min(owned.bytes, allowances.Of(owned.owner));
  }
  return held;
}

// Maximum number of segments for which OldestThatFits() makes a plan before it gives up.
constexpr int kMaxPlans = 8;

std::optional<SegmentId> OldestThatFits(const ReclaimView& view, const Allowances& allowances,
                                        uint64_t budget_bytes) {
  int plans = 0;
  for (const SegmentId segment : view.log->Reclaimable()) {
    if (LeastHeld(*view.index, segment, allowances) > budget_bytes) continue;
    const ReclaimTerms terms{
        .victim = segment, .budget_bytes = budget_bytes, .allowances = &allowances};
    if (PlanReclaim(*view.index, *view.order, terms).held_bytes <= budget_bytes) return segment;
    if (++plans == kMaxPlans) break;
  }
  return std::nullopt;
}

// Trim chooses leaves to drop, until the segment being tried holds no more than the budget.
class Trim {
 public:
  Trim(const ReclaimView& view, Allowances allowances, uint64_t budget_bytes)
      : index_(*view.index), left_(std::move(allowances)), budget_bytes_(budget_bytes) {}

  // Returns whether the segment holds little enough once trim() is dropped.
  bool Try(SegmentId segment) {
    uint64_t live = 0;
    std::vector<BlockKey> keys = index_.InSegment(segment);
    std::erase_if(keys, [&](const BlockKey& key) { return gone_.contains(key); });
    for (const BlockKey& key : keys) live += BytesOf(index_, key);
    for (auto key = keys.rbegin(); key != keys.rend() && live > budget_bytes_; ++key) {
      const uint64_t bytes = BytesOf(index_, *key);
      const TenantTag owner = *index_.OwnerOf(*key);
      if (left_.Of(owner) == 0 || !IsLeaf(*key)) continue;
      left_.Take(owner, bytes);
      gone_.insert(*key);
      trim_.push_back(*key);
      live -= bytes;
    }
    return live <= budget_bytes_;
  }
  size_t size() const { return trim_.size(); }
  std::vector<BlockKey> TakeKeys() { return std::move(trim_); }

 private:
  bool IsLeaf(const BlockKey& key) const {
    if (!index_.HasChildOf(key)) return true;
    const std::vector<BlockKey> children = index_.ChildrenOf(key);
    return std::ranges::all_of(children,
                               [&](const BlockKey& child) { return gone_.contains(child); });
  }

  const RecordIndex& index_;
  Allowances left_;
  const uint64_t budget_bytes_;
  KeySet gone_;
  std::vector<BlockKey> trim_;
};

// Tries each segment on its own, the oldest first, then all together, the newest first: the blocks
// of one segment may have to wait for leaves in another, and parents may be newer than their
// children. The second way always finds a segment, because its drops end only when all tenants have
// at most their fair shares.
std::optional<ReclaimChoice> ChooseByTrimming(const ReclaimView& view, uint64_t budget_bytes) {
  constexpr auto kTakeFrom = RoomShares::TakeFrom::kAllOver;
  const std::vector<SegmentId> oldest_first = view.log->Reclaimable();
  const std::vector<SegmentId> newest_first(oldest_first.rbegin(), oldest_first.rend());
  const Allowances allowances = view.shares->MayTake(*view.index, kTakeFrom);
  const auto choice = [&](SegmentId victim, Trim* trim) {
    return ReclaimChoice{.victim = victim, .take_from = kTakeFrom, .trim = trim->TakeKeys()};
  };
  for (const SegmentId segment : oldest_first) {
    if (LeastHeld(*view.index, segment, allowances) > budget_bytes) continue;
    Trim trim(view, allowances, budget_bytes);
    if (trim.Try(segment)) return choice(segment, &trim);
  }
  Trim trim(view, allowances, budget_bytes);
  size_t before = 0;
  do {
    before = trim.size();
    for (const SegmentId segment : newest_first) {
      if (trim.Try(segment)) return choice(segment, &trim);
    }
  } while (trim.size() > before);
  return std::nullopt;
}

std::optional<ReclaimChoice> ChooseForTenants(const ReclaimView& view, uint64_t budget_bytes) {
  const std::vector<SegmentId> candidates = view.log->Reclaimable();
  const uint64_t budget = std::min(budget_bytes, view.log->reclaim_room());
  for (const auto take_from :
       {RoomShares::TakeFrom::kFurthestOver, RoomShares::TakeFrom::kAllOver}) {
    const Allowances allowances = view.shares->MayTake(*view.index, take_from);
    const std::optional<SegmentId> victim = OldestThatFits(view, allowances, budget);
    if (victim) return ReclaimChoice{.victim = *victim, .take_from = take_from};
  }
  std::optional<ReclaimChoice> trimmed = ChooseByTrimming(view, budget);
  const bool is_stuck = view.log->free_segments() == 0 && !view.log->AwaitsWrites();
  if (trimmed || !is_stuck) return trimmed;
  constexpr auto kTakeFrom = RoomShares::TakeFrom::kAllOver;
  const Allowances allowances = view.shares->MayTake(*view.index, kTakeFrom);
  const SegmentId victim = *std::ranges::min_element(candidates, {}, [&](SegmentId segment) {
    return LeastHeld(*view.index, segment, allowances);
  });
  return ReclaimChoice{.victim = victim, .take_from = kTakeFrom, .is_forced = true};
}

}  // namespace

std::optional<ReclaimChoice> ChooseVictim(const ReclaimView& view, uint64_t budget_bytes) {
  const std::vector<SegmentId> candidates = view.log->Reclaimable();
  if (candidates.empty()) return std::nullopt;
  const SegmentId emptiest = *std::ranges::min_element(
      candidates, {}, [&](SegmentId segment) { return view.index->live_bytes(segment); });
  if (view.index->live_bytes(emptiest) == 0) return ReclaimChoice{.victim = emptiest};
  if (!view.shares->is_lone()) return ChooseForTenants(view, budget_bytes);
  return ReclaimChoice{.victim = view.log->free_segments() == 0 ? emptiest : candidates.front()};
}

ReclaimPlan PlanReclaim(const RecordIndex& index, const ReclaimOrder& order,
                        const ReclaimTerms& terms) {
  ReclaimPlan plan;
  const bool is_limited = terms.allowances != nullptr;
  Worths worths;
  if (terms.budget_bytes > 0 || is_limited) worths = WorthKeeping(index, order, terms.victim);
  if (is_limited) plan.held_bytes = Hold(index, terms, &worths);
  const uint64_t left = terms.budget_bytes - std::min(terms.budget_bytes, plan.held_bytes);
  const std::vector<BlockKey> kept = Keep(index, terms.victim, worths, left);
  const KeySet kept_set(kept.begin(), kept.end());
  KeySet dropped;
  const std::vector<BlockKey> keys =
      is_limited ? LeastWorthyFirst(index, terms.victim, worths) : index.InSegment(terms.victim);
  for (const BlockKey& key : keys) {
    if (!kept_set.contains(key)) DropWithDescendants(index, key, &dropped, &plan.drop);
  }
  // A kept block may descend from a dropped one by way of another segment; it is dropped, too.
  std::copy_if(kept.begin(), kept.end(), std::back_inserter(plan.reappend),
               [&](const BlockKey& key) { return !dropped.contains(key); });
  return plan;
}

std::vector<BlockKey> PlanOwnRoom(const ReclaimView& view, TenantTag owner, uint64_t bytes) {
  const RecordIndex& index = *view.index;
  std::vector<BlockKey> drop;
  KeySet seen;
  uint64_t freed = 0;
  for (const bool even_worthy : {false, true}) {
    for (const SegmentId segment : view.log->Written()) {
      if (std::ranges::find(index.OwnersIn(segment), owner, &OwnedBytes::owner) ==
          index.OwnersIn(segment).end()) {
        continue;
      }
      for (const BlockKey& key : index.InSegment(segment)) {
        if (freed >= bytes) return drop;
        if (index.OwnerOf(key) != owner || (!even_worthy && view.order->WorthOf(key))) continue;
        const size_t before = drop.size();
        DropWithDescendants(index, key, &seen, &drop);
        for (size_t i = before; i < drop.size(); ++i) freed += BytesOf(index, drop[i]);
      }
    }
  }
  return drop;
}

}  // namespace kvtier
