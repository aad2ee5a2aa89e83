#include "agent/sessions/sessions.h"

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/check.h"

namespace kvtier {

absl::StatusOr<SessionId> SessionTable::Open(const SessionTenants& of, const SessionToken& token) {
  if (sessions_.size() >= kMaxSessions) {
    return absl::ResourceExhaustedError(
        absl::StrCat("sessions: all ", kMaxSessions, " of the node are open; close some"));
  }
  KVT_CHECK(!by_token_.contains(token));
  const SessionId id{next_id_++};
  Session& session = sessions_[id];
  session.of = of;
  session.token = token;
  by_token_[token] = id;
  return id;
}

void SessionTable::Close(SessionId id) {
  const auto session = sessions_.find(id);
  if (session == sessions_.end()) return;
  for (const auto& [space_id, space] : session->second.spaces) {
    spaces_.Remove(session->second.of.home->domain, space.digest);
  }
  by_token_.erase(session->second.token);
  sessions_.erase(session);
}

std::vector<SessionId> SessionTable::OfDomain(DomainId domain) const {
  std::vector<SessionId> ids;
  for (const auto& [id, session] : sessions_) {
    if (session.of.home->domain == domain || session.of.payer->domain == domain) ids.push_back(id);
  }
  return ids;
}

std::vector<SessionId> SessionTable::InGroups() const {
  std::vector<SessionId> ids;
  for (const auto& [id, session] : sessions_) {
    if (session.of.in_group()) ids.push_back(id);
  }
  return ids;
}

absl::StatusOr<SessionId> SessionTable::Find(const SessionToken& token) const {
  const auto found = by_token_.find(token);
  if (found == by_token_.end()) {
    return absl::FailedPreconditionError(
        "session_token: no open session has it; open one on the descriptor socket");
  }
  return found->second;
}

absl::StatusOr<uint32_t> SessionTable::AddSpace(SessionId id, const SpaceSpec& spec,
                                                uint64_t registration) {
  Session& session = sessions_.at(id);
  const SpaceDigest digest = spec.Digest();
  for (const auto& [space_id, space] : session.spaces) {
    if (space.digest == digest && space.registration == registration) return space_id;
  }
  if (session.spaces.size() >= kMaxSpacesPerSession) {
    return absl::ResourceExhaustedError(
        absl::StrCat("spaces: the session has registered ", kMaxSpacesPerSession,
                     ", the most that it may; open another session for more"));
  }
  session.spaces.emplace(++session.last_space,
                         Space{.digest = digest,
                               .registration = registration,
                               .lengths = BlockLengths::Of(spec),
                               .namer = BlockNamer(session.of.home->key, digest)});
  spaces_.Add(DomainOf(id), spec, digest);
  return session.last_space;
}

void SessionTable::RemoveSpace(SessionId id, uint32_t space_id) {
  Session& session = sessions_.at(id);
  const auto space = session.spaces.find(space_id);
  if (space == session.spaces.end()) return;
  spaces_.Remove(session.of.home->domain, space->second.digest);
  session.spaces.erase(space);
}

absl::StatusOr<BlockRun> SessionTable::NameRun(SessionId id, uint32_t space_id,
                                               const std::optional<EngineKey>& parent,
                                               std::span<const EngineKey> keys) const {
  const Session& session = sessions_.at(id);
  const auto found = session.spaces.find(space_id);
  if (found == session.spaces.end()) {
    return absl::InvalidArgumentError(absl::StrCat("space_id: ", space_id, "; must be one of the ",
                                                   session.spaces.size(),
                                                   " that this session registered"));
  }
  const Space& space = found->second;
  BlockRun run{.session = id,
               .domain = session.of.home->domain,
               .space = space.digest,
               .lengths = space.lengths};
  if (session.of.in_group()) run.member = session.of.payer->domain;
  if (parent.has_value()) run.parent = space.namer.Name(*parent);
  run.keys.resize(keys.size());
  space.namer.NameAll(keys, run.keys);
  return run;
}

}  // namespace kvtier
