// Findings about the agent's sockets, and about the users that connect to them.
#ifndef KVTIER_CLI_SOCKET_FINDINGS_H_
#define KVTIER_CLI_SOCKET_FINDINGS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "cli/finding.h"
#include "cli/node_facts.h"

namespace kvtier::cli {

// Returns the findings about sockets. Says of a missing directory or agent only that, and not what
// follows from it. Pure.
Findings SocketFindings(const NodeFacts& facts);

// Returns the id that `uid` is outside of the user namespace of `map`; nullopt: it is mapped to
// none, and the kernel shows it as nobody's.
std::optional<uint32_t> OutsideUid(uint32_t uid, std::span<const UidRange> map);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_SOCKET_FINDINGS_H_
