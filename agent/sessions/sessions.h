// SessionTable knows the workers that are connected: whose they are and which
// spaces they use. It is where an engine's keys become BlockKeys.
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
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/sessions/registered_spaces.h"
#include "agent/sessions/tenants.h"
#include "core/block_key.h"
#include "core/block_lengths.h"
#include "core/check.h"
#include "core/space.h"
#include "tier_host/host_tier.h"

namespace kvtier {

enum class SessionId : uint64_t {};

using SessionToken = std::array<uint8_t, 16>;

// Blocks of one session that are asked for together, named for good: what the flows work on. A
// run is a prefix, and what lies behind a hole of it is of no use; a set has no order.
struct BlockRun {
  SessionId session{};
  DomainId domain{};
  SpaceDigest space;
  BlockLengths lengths;            // That blocks of the space may have.
  std::optional<BlockKey> parent;  // Of keys[0], when the caller named one.
  bool is_set = false;             // Holes are allowed, and no block has a parent.
  std::vector<BlockKey> keys;      // Of a run in prefix order.
  // Length of the block of each key, of what is reserved where lengths.any; else empty.
  std::vector<uint64_t> key_lengths{};

  // How long the block of keys[i] is to be. REQUIRES: it is to be reserved.
  uint64_t LengthOf(size_t i) const {
    if (!lengths.any) return lengths.longest;
    KVT_CHECK(i < key_lengths.size());
    return key_lengths[i];
  }
  // The block before keys[i].
  std::optional<BlockKey> ParentOf(size_t i) const {
    if (is_set) return std::nullopt;
    return i == 0 ? parent : std::optional<BlockKey>(keys[i - 1]);
  }
};

class SessionTable {
 public:
  // Errors: kResourceExhausted at kMaxSessions.
  absl::StatusOr<SessionId> Open(const Tenant& tenant, const SessionToken& token);
  // Unknown ids are ignored.
  void Close(SessionId id);
  bool IsOpen(SessionId id) const { return sessions_.contains(id); }
  // REQUIRES: it is open.
  DomainId DomainOf(SessionId id) const { return sessions_.at(id).tenant->domain; }
  size_t size() const { return sessions_.size(); }
  // What the sessions registered, those that are over included.
  const RegisteredSpaces& spaces() const { return spaces_; }

  // Errors: kFailedPrecondition, no open session has this token (open a new one).
  absl::StatusOr<SessionId> Find(const SessionToken& token) const;
  // Names a space for the session and returns its id, which is never another space's; the same spec
  // with the same `registration`, the worker's number, gets the same id. REQUIRES: `spec` is valid.
  // Errors: kResourceExhausted at kMaxSpacesPerSession.
  absl::StatusOr<uint32_t> AddSpace(SessionId id, const SpaceSpec& spec, uint64_t registration = 0);
  // The session names the space no more. Unknown ids are ignored.
  void RemoveSpace(SessionId id, uint32_t space_id);
  // Errors: kInvalidArgument, `space_id` is not the session's.
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
    const Tenant* tenant = nullptr;  // Of the TenantTable, which outlives this.
    SessionToken token{};
    std::map<uint32_t, Space> spaces;  // By id.
    uint32_t last_space = 0;           // The last id that was given.
  };
  uint64_t next_id_ = 1;
  absl::flat_hash_map<SessionId, Session> sessions_;
  absl::flat_hash_map<SessionToken, SessionId> by_token_;
  RegisteredSpaces spaces_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SESSIONS_SESSIONS_H_
