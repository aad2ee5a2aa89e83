// Matcher answers where blocks are: this node's index first, the coordinator's hints for the
// rest. It promises nothing and moves nothing.
//
// Executor thread only.
#ifndef KVTIER_AGENT_FLOWS_MATCH_H_
#define KVTIER_AGENT_FLOWS_MATCH_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "agent/flows/fetch.h"
#include "agent/index/block_index.h"
#include "agent/sessions/fair_turns.h"
#include "agent/sessions/sessions.h"
#include "core/task.h"

namespace kvtier {

// The blocks of one run or set that are known, and where they are.
struct Matched {
  size_t local_blocks = 0;  // Blocks that this node has; of a run, the leading ones.
  size_t total_blocks = 0;  // Blocks that this node or another has; of a run, the leading ones.
  // Best tier of each key's block, on this node or on the node that has it; nullopt: no node has
  // the block. For a run the list ends with the last leading block.
  std::vector<std::optional<Tier>> tiers;
};

class Matcher {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    Executor* executor = nullptr;
    FairTurns* turns = nullptr;
    BlockIndex* index = nullptr;
    Fetcher* fetcher = nullptr;
  };
  explicit Matcher(const Parts& parts) : parts_(parts) {}

  // Answers for all of `runs`, which are one session's, with one question to the coordinator at
  // most, which may take `timeout`; zero: local only.
  Task<std::vector<Matched>> Match(std::vector<BlockRun> runs, absl::Duration timeout);

 private:
  // Looks on this node alone for the keys after those that `matched` has, for kKeysPerTurn of them
  // at most. Returns whether there are more keys to look for.
  bool MatchSome(const BlockRun& run, Matched* matched) const;
  // Looks at this node alone. REQUIRES: `run` outlives the task.
  Task<Matched> MatchHere(const BlockRun& run) const;

  const Parts parts_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_MATCH_H_
