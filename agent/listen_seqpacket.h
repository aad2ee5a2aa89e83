// How the agent's descriptor sockets begin to listen.
#ifndef KVTIER_AGENT_LISTEN_SEQPACKET_H_
#define KVTIER_AGENT_LISTEN_SEQPACKET_H_

#include <string>

#include "absl/status/statusor.h"

namespace kvtier {

// A SEQPACKET Unix socket that listens at `path`, in place of a stale one there, for owner
// and group. It does not block, and is the caller's to close. Errors: kUnavailable, with the
// path and errno's text.
absl::StatusOr<int> ListenSeqpacket(const std::string& path);

}  // namespace kvtier

#endif  // KVTIER_AGENT_LISTEN_SEQPACKET_H_
