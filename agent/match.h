// Matcher answers where the longest prefix of a run is: this node's index first,
// the coordinator's hints for the rest. It promises nothing and moves nothing.
//
// Executor thread only.
#ifndef KVTIER_AGENT_MATCH_H_
#define KVTIER_AGENT_MATCH_H_

#include <cstddef>
#include <vector>

#include "absl/time/time.h"
#include "agent/block_index.h"
#include "agent/fetch.h"
#include "agent/sessions.h"
#include "core/task.h"

namespace kvtier {

struct Matched {
  size_t local_blocks = 0;  // Leading blocks that this node has.
  std::vector<Tier> tiers;  // Best tier of each leading block, those of other nodes after
                            // the local ones.
};

class Matcher {
 public:
  // Does not own.
  Matcher(Executor* executor, BlockIndex* index, Fetcher* fetcher)
      : executor_(executor), index_(index), fetcher_(fetcher) {}

  // `timeout` bounds the coordinator's part; zero: local only.
  Task<Matched> Match(BlockRun run, absl::Duration timeout);

 private:
  Executor* const executor_;
  BlockIndex* const index_;
  Fetcher* const fetcher_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_MATCH_H_
