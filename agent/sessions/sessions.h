// SessionTable knows the open sessions: the tenants of each, and the spaces that it uses. It turns
// an engine's keys into BlockKeys.
//
// Executor thread only.
#ifndef KVTIER_AGENT_SESSIONS_SESSIONS_H_
#define KVTIER_AGENT_SESSIONS_SESSIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/block_run.h"
#include "agent/sessions/registered_spaces.h"
#include "agent/tenants.h"
#include "core/block_key.h"
#include "core/space.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class SessionTable {
 public:
  // Errors: kResourceExhausted at kMaxSessions.
  absl::StatusOr<SessionId> Open(const SessionTenants& of, const SessionToken& token);
  // Closes the session. Ignores unknown ids.
  void Close(SessionId id);
  bool IsOpen(SessionId id) const { return sessions_.contains(id); }
  // REQUIRES of these four: the session is open.
  const SessionToken& TokenOf(SessionId id) const { return sessions_.at(id).token; }
  const SessionTenants& TenantsOf(SessionId id) const { return sessions_.at(id).of; }
  // Returns the domain that its blocks lie in.
  DomainId DomainOf(SessionId id) const { return TenantsOf(id).home->domain; }
  // Returns the domain of the tenant that pays for what the session takes.
  DomainId PayerOf(SessionId id) const { return TenantsOf(id).payer->domain; }
  // Returns the open sessions whose blocks lie in the domain, or for which its tenant pays, in no
  // order. O(sessions).
  std::vector<SessionId> OfDomain(DomainId domain) const;
  // Returns the open sessions of members of share groups, in no order. O(sessions).
  std::vector<SessionId> InGroups() const;
  size_t size() const { return sessions_.size(); }
  // Returns the spaces that sessions registered, closed sessions included.
  const RegisteredSpaces& spaces() const { return spaces_; }

  // Errors: kFailedPrecondition, no open session has this token (open a new one).
  absl::StatusOr<SessionId> Find(const SessionToken& token) const;
  // Names a space for the session and returns its id, which is never another space's; the same spec
  // with the same `registration`, the worker's number, gets the same id. REQUIRES: `spec` is valid.
  // Errors: kResourceExhausted at kMaxSpacesPerSession.
  absl::StatusOr<uint32_t> AddSpace(SessionId id, const SpaceSpec& spec, uint64_t registration = 0);
  // Removes a space that the session no longer names. Ignores unknown ids.
  void RemoveSpace(SessionId id, uint32_t space_id);
  // Makes the run with the BlockKeys of these engine keys. Errors: kInvalidArgument, `space_id` is
  // not the session's.
  absl::StatusOr<BlockRun> NameRun(SessionId id, uint32_t space_id,
                                   const std::optional<EngineKey>& parent,
                                   std::span<const EngineKey> keys) const;

 private:
  struct Space {
    SpaceDigest digest;
    uint64_t registration = 0;
    BlockLengths lengths;
    BlockNamer namer;
  };
  struct Session {
    SessionTenants of;
    SessionToken token{};
    std::map<uint32_t, Space> spaces;  // Spaces by id.
    uint32_t last_space = 0;           // The last id that was given.
  };
  uint64_t next_id_ = 1;
  absl::flat_hash_map<SessionId, Session> sessions_;
  absl::flat_hash_map<SessionToken, SessionId> by_token_;
  RegisteredSpaces spaces_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SESSIONS_SESSIONS_H_
