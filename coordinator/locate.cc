#include "coordinator/locate.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "core/check.h"

namespace kvtier {
namespace {

constexpr size_t kMaxRun = 65535;

// Number of consecutive blocks that a holder has from some position on: in host memory, in any
// tier.
struct Reach {
  uint16_t host = 0;
  uint16_t any = 0;
};
using Reaches = std::array<Reach, kMaxHoldersPerKey>;  // Parallel to HolderSet::entries.

// Goes from the end of the run: a holder reaches one block farther than from the next block.
std::vector<Reaches> MeasureReach(std::span<const HolderSet> run) {
  size_t indices = 0;
  for (const HolderSet& holders : run) {
    for (const NodeCopies copies : holders.view()) {
      indices = std::max(indices, static_cast<size_t>(copies.node()) + 1);
    }
  }
  struct Latest {
    size_t position = 0;  // Position of the block from which `reach` was measured.
    Reach reach;
  };
  std::vector<Latest> latest(indices);
  std::vector<Reaches> reaches(run.size());
  for (size_t i = run.size(); i-- > 0;) {
    const std::span<const NodeCopies> entries = run[i].view();
    for (size_t j = 0; j < entries.size(); ++j) {
      Latest& last = latest[static_cast<size_t>(entries[j].node())];
      const Reach next = last.position == i + 1 ? last.reach : Reach{};
      const bool on_host = entries[j].Has(Tier::kHost);
      reaches[i][j] = {.host = static_cast<uint16_t>(on_host ? next.host + 1 : 0),
                       .any = static_cast<uint16_t>(next.any + 1)};
      last = {.position = i, .reach = reaches[i][j]};
    }
  }
  return reaches;
}

// Mixes with splitmix64's finaliser, a bijection: different pairs give equal numbers only by
// chance.
uint64_t Mix(uint64_t asker, NodeIndex node) {
  uint64_t z = asker + (static_cast<uint64_t>(node) + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

struct Candidate {
  RankedHolder holder;
  size_t avoided = 0;  // How much the asker avoids it; 0: not at all.
  bool leads = false;  // Whether it is first for the previous block.
  uint16_t reach = 0;
  uint64_t lot = 0;
  auto Rank() const {  // The smallest is the best.
    return std::make_tuple(avoided, holder.tier == Tier::kHost ? 0 : 1, leads ? 0 : 1, -int{reach},
                           lot);
  }
};

}  // namespace

std::vector<RankedHolders> RankHolders(std::span<const HolderSet> run, uint64_t asker,
                                       const absl::flat_hash_map<NodeIndex, size_t>& avoided) {
  KVT_CHECK(run.size() <= kMaxRun);
  const std::vector<Reaches> reaches = MeasureReach(run);
  std::vector<RankedHolders> ranked(run.size());
  std::optional<NodeIndex> leader;
  for (size_t i = 0; i < run.size(); ++i) {
    const std::span<const NodeCopies> entries = run[i].view();
    KVT_CHECK(!entries.empty());
    std::array<Candidate, kMaxHoldersPerKey> candidates;
    for (size_t j = 0; j < entries.size(); ++j) {
      const NodeIndex node = entries[j].node();
      const Tier tier = entries[j].Has(Tier::kHost) ? Tier::kHost : Tier::kDisk;
      const auto avoids = avoided.find(node);
      candidates[j] = {.holder = {.node = node, .tier = tier},
                       .avoided = avoids == avoided.end() ? 0 : avoids->second,
                       .leads = leader == node,
                       .reach = tier == Tier::kHost ? reaches[i][j].host : reaches[i][j].any,
                       .lot = Mix(asker, node)};
    }
    const size_t kept = std::min(entries.size(), kMaxHoldersPerReply);
    std::partial_sort(candidates.begin(), candidates.begin() + kept,
                      candidates.begin() + entries.size(),
                      [](const Candidate& a, const Candidate& b) { return a.Rank() < b.Rank(); });
    for (size_t j = 0; j < kept; ++j) ranked[i].push_back(candidates[j].holder);
    leader = ranked[i].front().node;
  }
  return ranked;
}

}  // namespace kvtier
