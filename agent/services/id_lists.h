// Lists of ids in workers' calls: how long they may be, and how they are worked on.
#ifndef KVTIER_AGENT_SERVICES_ID_LISTS_H_
#define KVTIER_AGENT_SERVICES_ID_LISTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/agent.h"
#include "agent/sessions/fair_turns.h"
#include "core/status_macros.h"
#include "core/task.h"
#include "google/protobuf/repeated_field.h"
#include "proto/convert.h"

namespace kvtier {

// Returns the numbers as ids of one kind, such as LeaseId. Errors: convert::CheckIdCount()'s.
template <typename Id>
absl::StatusOr<std::vector<Id>> IdsFrom(const google::protobuf::RepeatedField<uint64_t>& wire,
                                        const char* field) {
  KVT_RETURN_IF_ERROR(convert::CheckIdCount(wire.size(), field));
  std::vector<Id> ids;
  ids.reserve(static_cast<size_t>(wire.size()));
  for (const uint64_t id : wire) ids.push_back(Id{id});
  return ids;
}

// As above, of numbers that are no type of their own.
inline absl::StatusOr<std::vector<uint32_t>> NumbersFrom(
    const google::protobuf::RepeatedField<uint32_t>& wire, const char* field) {
  KVT_RETURN_IF_ERROR(convert::CheckIdCount(wire.size(), field));
  return std::vector<uint32_t>(wire.begin(), wire.end());
}

// Calls `work` with all ids, kKeysPerTurn or `at_a_time` of them in a turn, and gives way to other
// tenants meanwhile. Ends early if the session ends.
template <typename Id, typename Work>
Task<void> InTurns(Agent* agent, SessionId session, std::vector<Id> ids, Work work,
                   size_t at_a_time = kKeysPerTurn) {
  const SessionTable& sessions = agent->sessions().table();
  for (std::span<const Id> left = ids; !left.empty() && sessions.IsOpen(session);) {
    const std::span<const Id> some = left.first(std::min(left.size(), at_a_time));
    work(some);
    left = left.subspan(some.size());
    if (left.empty()) break;
    co_await agent->turns().GiveWay(sessions.PayerOf(session));
  }
}

}  // namespace kvtier

#endif  // KVTIER_AGENT_SERVICES_ID_LISTS_H_
