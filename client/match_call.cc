#include "client/match_call.h"

#include <algorithm>

namespace kvtier {

bool MatchCall::Fill(const std::shared_ptr<Connection>& connection) {
  const auto space = connection->FindSpace(static_cast<size_t>(space_));
  if (!space || space->id == 0) return false;
  FillPrefix(*connection, *space, keys_, &messages.request);
  messages.request.set_timeout_ms(local_only_ ? 0 : AgentTimeoutMs(messages.timeout));
  return true;
}

MatchedPrefix MatchCall::Finish(const std::shared_ptr<AgentLink>&, bool answered) {
  MatchedPrefix matched;
  if (!answered) return matched;
  const v1::MatchResponse& response = messages.response;
  const size_t asked = static_cast<size_t>(messages.request.engine_keys_size());
  // A tier this client does not know ends the run: it comes from a newer agent.
  for (const int wire_tier : response.tiers()) {
    const auto tier = convert::TierFrom(static_cast<v1::Tier>(wire_tier), "tiers");
    if (!tier.ok() || matched.tiers.size() == asked) break;
    matched.tiers.push_back(*tier);
  }
  matched.blocks = matched.tiers.size();
  matched.local_blocks = std::min<size_t>(response.local_blocks(), matched.blocks);
  return matched;
}

}  // namespace kvtier
