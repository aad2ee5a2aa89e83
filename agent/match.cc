#include "agent/match.h"

namespace kvtier {
Task<Matched> Matcher::Match(BlockRun run, absl::Duration timeout) {
  Matched matched;
  matched.local_blocks = index_->LongestPrefix(run.keys);
  for (size_t i = 0; i < matched.local_blocks; ++i) {
    matched.tiers.push_back(*index_->NearestTier(run.keys[i]));
  }
  if (timeout > absl::ZeroDuration() && matched.local_blocks < run.keys.size()) {
    std::vector<BlockKey> rest(run.keys.begin() + matched.local_blocks, run.keys.end());
    const LocateReply located =
        co_await fetcher_->Locate(std::move(rest), executor_->Now() + timeout);
    for (const std::vector<Holder>& holders : located) {
      if (holders.empty()) break;
      matched.tiers.push_back(holders.front().tier);
    }
  }
  co_return matched;
}

}  // namespace kvtier
