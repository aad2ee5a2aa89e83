#include "agent/flows/match.h"

#include <algorithm>
#include <span>
#include <utility>

namespace kvtier {
namespace {

// A key that this node does not have: the place of its answer.
struct Unmatched {
  size_t run = 0;
  size_t key = 0;
};

// Adds what other nodes have of the keys at `places`.
void AddElsewhere(const std::vector<BlockRun>& runs, const std::vector<Unmatched>& places,
                  const LocateReply& located, std::vector<Matched>* matched) {
  for (size_t i = 0; i < std::min(places.size(), located.size()); ++i) {
    if (located[i].empty()) continue;
    Matched& of_run = (*matched)[places[i].run];
    const Tier tier = located[i].front().tier;
    if (runs[places[i].run].is_set) {
      of_run.tiers[places[i].key] = tier;
    } else if (of_run.tiers.size() == places[i].key) {
      of_run.tiers.push_back(tier);
    } else {
      continue;  // The block lies after a hole.
    }
    ++of_run.total_blocks;
  }
}

}  // namespace

bool Matcher::MatchSome(const BlockRun& run, Matched* matched) const {
  const size_t first = matched->tiers.size();
  const size_t count = std::min(run.keys.size() - first, kKeysPerTurn);
  for (const BlockKey& key : std::span(run.keys).subspan(first, count)) {
    const std::optional<Tier> tier = parts_.index->NearestTier(key);
    if (!tier && !run.is_set) return false;
    matched->tiers.push_back(tier);
    if (tier) ++matched->local_blocks;
  }
  return first + count < run.keys.size();
}

Task<Matched> Matcher::MatchHere(const BlockRun& run) const {
  Matched matched;
  matched.tiers.reserve(run.keys.size());
  while (MatchSome(run, &matched)) co_await parts_.turns->GiveWay(run.payer());
  matched.total_blocks = matched.local_blocks;
  co_return matched;
}

Task<std::vector<Matched>> Matcher::Match(std::vector<BlockRun> runs, absl::Duration timeout) {
  std::vector<Matched> matched;
  std::vector<BlockKey> rest;
  std::vector<Unmatched> places;  // Places of `rest`.
  for (size_t i = 0; i < runs.size(); ++i) {
    matched.push_back(co_await MatchHere(runs[i]));
    if (timeout <= absl::ZeroDuration()) continue;
    const size_t first = runs[i].is_set ? 0 : matched[i].tiers.size();
    for (size_t k = first; k < runs[i].keys.size(); ++k) {
      if (runs[i].is_set && matched[i].tiers[k]) continue;
      rest.push_back(runs[i].keys[k]);
      places.push_back({.run = i, .key = k});
    }
  }
  if (rest.empty()) co_return matched;
  // A lone run ends at its first hole, and so does the coordinator's answer then. Among several
  // sequences it cannot tell where a run ends.
  const bool one_run = runs.size() == 1 && !runs[0].is_set;
  const LocateScope scope = one_run ? LocateScope::kLeading : LocateScope::kEach;
  const LocateReply located = co_await parts_.fetcher->Locate(runs[0].domain, rest, scope,
                                                              parts_.executor->Now() + timeout);
  AddElsewhere(runs, places, located, &matched);
  co_return matched;
}

}  // namespace kvtier
