#include "agent/services/run_namer.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "agent/services/worker_wire.h"
#include "core/status_macros.h"
#include "proto/convert.h"
#include "proto/sequence_keys.h"

namespace kvtier {

absl::StatusOr<SessionId> RunNamer::FindSession(const std::string& token) const {
  KVT_ASSIGN_OR_RETURN(const SessionToken session_token, SessionTokenFrom(token));
  return agent_->sessions().table().Find(session_token);
}

Caller RunNamer::CallerOf(const std::string& session_token) const {
  auto tenant = [this, token = &session_token]() -> std::optional<DomainId> {
    const absl::StatusOr<SessionId> session = FindSession(*token);
    if (!session.ok()) return std::nullopt;
    return agent_->sessions().table().PayerOf(*session);
  };
  return {.session_token = session_token, .tenant = std::move(tenant)};
}

Task<absl::StatusOr<std::vector<BlockRun>>> RunNamer::NameSequences(
    const std::string& session_token, const Sequences& sequences) const {
  KVT_CO_ASSIGN_OR_RETURN(const SessionId session, FindSession(session_token));
  KVT_CO_RETURN_IF_ERROR(convert::CheckSequences(sequences));
  std::vector<BlockRun> runs;
  for (const v1::Sequence& sequence : sequences) {
    KVT_CO_ASSIGN_OR_RETURN(BlockRun run, co_await NameRun(session, sequence));
    runs.push_back(std::move(run));
    // The session may have ended during a pause.
    KVT_CO_RETURN_IF_ERROR(FindSession(session_token).status());
  }
  co_return runs;
}

Task<absl::StatusOr<BlockRun>> RunNamer::NameRun(SessionId session,
                                                 const v1::Sequence& sequence) const {
  const SessionTable& table = agent_->sessions().table();
  const bool may_write = table.TenantsOf(session).may_write;
  KVT_CO_ASSIGN_OR_RETURN(const std::vector<EngineKey> keys, convert::EngineKeysFrom(sequence));
  KVT_CO_ASSIGN_OR_RETURN(
      const std::optional<EngineKey> parent,
      convert::OptionalEngineKeyFrom(sequence.parent_engine_key(), "parent_engine_key"));
  std::span<const EngineKey> left = keys;
  const auto take = [&left] {
    const std::span<const EngineKey> some = left.first(std::min(left.size(), kKeysPerTurn));
    left = left.subspan(some.size());
    return some;
  };
  KVT_CO_ASSIGN_OR_RETURN(BlockRun run,
                          table.NameRun(session, sequence.space_id(), parent, take()));
  run.keys.reserve(keys.size());
  while (!left.empty()) {
    co_await agent_->turns().GiveWay(run.payer());
    if (!table.IsOpen(session)) break;
    KVT_CO_ASSIGN_OR_RETURN(const BlockRun more,
                            table.NameRun(session, sequence.space_id(), std::nullopt, take()));
    run.keys.insert(run.keys.end(), more.keys.begin(), more.keys.end());
  }
  run.is_set = sequence.set();
  KVT_CO_ASSIGN_OR_RETURN(const ReuseHint hint, convert::ReuseHintFrom(sequence));
  // A member that only reads does not move a share group's blocks out of memory.
  if (may_write) run.hint = hint;
  co_return run;
}

}  // namespace kvtier
