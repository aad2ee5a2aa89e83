#include "client/match_call.h"

#include <algorithm>
#include <optional>

namespace kvtier {
namespace {

MatchedSequence Read(const v1::MatchedSequence& wire, const AskedSequence& asked) {
  MatchedSequence matched;
  for (const int wire_tier : wire.tiers()) {
    if (matched.tiers.size() == asked.keys) break;
    // A tier that this client does not know comes from a newer agent: it is a hole.
    std::optional<Tier> tier;
    if (const auto known = convert::TierFrom(static_cast<v1::Tier>(wire_tier), "tiers");
        known.ok()) {
      tier = *known;
    }
    if (!tier && !asked.is_set) break;
    matched.tiers.push_back(tier);
    if (tier) ++matched.blocks;
  }
  if (asked.is_set) matched.tiers.resize(asked.keys);
  matched.local_blocks = std::min<size_t>(wire.local_blocks(), matched.blocks);
  return matched;
}

}  // namespace

bool MatchCall::Fill(const std::shared_ptr<Connection>& connection) {
  messages.request.set_timeout_ms(local_only_ ? 0 : AgentTimeoutMs(messages.timeout));
  return FillSequences(*connection, sequences_, &messages.request, &asked_);
}

MatchCall::Result MatchCall::Finish(const std::shared_ptr<AgentLink>&, CallOutcome outcome) {
  Result matched(asked_.size());
  if (outcome != CallOutcome::kAnswered) return matched;
  for (size_t i = 0; i < matched.size(); ++i) {
    const int at = static_cast<int>(i);
    if (at == messages.response.sequences_size()) break;
    matched[i] = Read(messages.response.sequences(at), asked_[i]);
  }
  return matched;
}

}  // namespace kvtier
