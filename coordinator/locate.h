// Says which holder of each block to ask first. Pure: holders in, ranking out.
#ifndef KVTIER_COORDINATOR_LOCATE_H_
#define KVTIER_COORDINATOR_LOCATE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "coordinator/directory.h"

namespace kvtier {

// Maximum number of holders in a reply for one block: one to ask, and others in case it is gone.
inline constexpr size_t kMaxHoldersPerReply = 4;

struct RankedHolder {
  NodeIndex node;
  Tier tier;
  friend bool operator==(const RankedHolder&, const RankedHolder&) = default;
};
using RankedHolders = absl::InlinedVector<RankedHolder, kMaxHoldersPerReply>;

// Ranks the holders of each block of a run, best first, at most 4 of each, by
//   1. host memory before disk;
//   2. the holder already asked for the previous block, as far as 1. permits: the peer
//      changes only where it must (choosing the farthest-reaching holder at each change
//      is the classic greedy interval cover, which is minimal);
//   3. the longest run of blocks from here on;
//   4. a hash of asker and holder, so that not all askers ask the same node for blocks
//      that every node holds.
// `asker` is any number that differs between askers. REQUIRES: no set is empty; run.size() < 65536.
std::vector<RankedHolders> RankHolders(std::span<const HolderSet> run, uint64_t asker);

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_LOCATE_H_
