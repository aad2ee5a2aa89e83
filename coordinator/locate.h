// Says which holder of each block to ask first. Pure: holders in, ranking out.
#ifndef KVTIER_COORDINATOR_LOCATE_H_
#define KVTIER_COORDINATOR_LOCATE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "coordinator/directory.h"
#include "core/report.h"

namespace kvtier {

struct RankedHolder {
  NodeIndex node;
  Tier tier;
  friend bool operator==(const RankedHolder&, const RankedHolder&) = default;
};
using RankedHolders = absl::InlinedVector<RankedHolder, kMaxHoldersPerReply>;

// Ranks the holders of each block of a run, best first, at most 4 of each, by
//   1. those that the asker does not avoid first, then those that it avoids least;
//   2. host memory before disk;
//   3. the holder already asked for the previous block, as far as 1. and 2. permit: the peer
//      changes only where it must (choosing the farthest-reaching holder at each change
//      is the classic greedy interval cover, which is minimal);
//   4. the longest run of blocks from here on;
//   5. a hash of asker and holder, so that not all askers ask the same node for blocks
//      that every node holds.
// `asker` is any number that differs between askers; `avoided` has the nodes that it avoids, and a
// number that is higher the more it avoids each.
// REQUIRES: no set is empty; run.size() < 65536.
std::vector<RankedHolders> RankHolders(std::span<const HolderSet> run, uint64_t asker,
                                       const absl::flat_hash_map<NodeIndex, size_t>& avoided = {});

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_LOCATE_H_
