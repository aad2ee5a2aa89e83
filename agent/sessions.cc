#include "agent/sessions.h"

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/check.h"

namespace kvtier {

absl::StatusOr<SessionId> SessionTable::Open(const Tenant& tenant, const SessionToken& token) {
  if (sessions_.size() >= kMaxSessions) {
    return absl::ResourceExhaustedError(
        absl::StrCat("sessions: all ", kMaxSessions, " are in use"));
  }
  KVT_CHECK(!by_token_.contains(token));
  const SessionId id{next_id_++};
  Session& session = sessions_[id];
  session.tenant = &tenant;
  session.token = token;
  by_token_[token] = id;
  return id;
}

void SessionTable::Close(SessionId id) {
  const auto session = sessions_.find(id);
  if (session == sessions_.end()) return;
  for (const Space& space : session->second.spaces) {
    spaces_.Remove(session->second.tenant->domain, space.digest);
  }
  by_token_.erase(session->second.token);
  sessions_.erase(session);
}

absl::StatusOr<SessionId> SessionTable::Find(const SessionToken& token) const {
  const auto found = by_token_.find(token);
  if (found == by_token_.end()) {
    return absl::FailedPreconditionError(
        "session_token: no open session has it; open one on the descriptor socket");
  }
  return found->second;
}

absl::StatusOr<uint32_t> SessionTable::AddSpace(SessionId id, const SpaceSpec& spec) {
  std::vector<Space>& spaces = sessions_.at(id).spaces;
  const SpaceDigest digest = spec.Digest();
  for (size_t i = 0; i < spaces.size(); ++i) {
    if (spaces[i].digest == digest) return static_cast<uint32_t>(i + 1);
  }
  if (spaces.size() >= kMaxSpacesPerSession) {
    return absl::ResourceExhaustedError(
        absl::StrCat("spaces: the session's ", kMaxSpacesPerSession, " are in use"));
  }
  spaces.push_back({.digest = digest,
                    .block_bytes = spec.block_bytes,
                    .namer = BlockNamer(sessions_.at(id).tenant->key, digest)});
  spaces_.Add(DomainOf(id), spec, digest);
  return static_cast<uint32_t>(spaces.size());
}

absl::StatusOr<BlockRun> SessionTable::NameRun(SessionId id, uint32_t space_id,
                                               const std::optional<EngineKey>& parent,
                                               std::span<const EngineKey> keys) const {
  const Session& session = sessions_.at(id);
  if (space_id == 0 || space_id > session.spaces.size()) {
    return absl::InvalidArgumentError(absl::StrCat("space_id: ", space_id, " is not one of the ",
                                                   session.spaces.size(),
                                                   " that this session registered"));
  }
  const Space& space = session.spaces[space_id - 1];
  BlockRun run{.session = id,
               .domain = session.tenant->domain,
               .space = space.digest,
               .block_bytes = space.block_bytes};
  if (parent.has_value()) run.parent = space.namer.Name(*parent);
  run.keys.resize(keys.size());
  space.namer.NameAll(keys, run.keys);
  return run;
}

}  // namespace kvtier
