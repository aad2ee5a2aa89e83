// These functions let released leases travel with the worker's next onboard or reserve, which may
// need the room that they held, and which saves a call of their own.
#ifndef KVTIER_CLIENT_RELEASES_ALONG_H_
#define KVTIER_CLIENT_RELEASES_ALONG_H_

#include <cstdint>
#include <vector>

#include "client/agent_link.h"
#include "client/call_outcome.h"
#include "client/connection.h"

namespace kvtier {

// Moves leases that wait to be released from the connection's queue to the request.
template <typename Request>
void TakeReleasesAlong(Connection* connection, Request* request) {
  const std::vector<uint64_t> leases = connection->releases().TakeLeases();
  request->mutable_released_lease_ids()->Add(leases.begin(), leases.end());
}

// Queues the leases that the request took along again, unless it was answered: the agent may not
// have read them, and releasing one twice does no harm. `connection` may be null if it took none.
template <typename Request>
void ReturnReleases(AgentLink* link, Connection* connection, const Request& request,
                    CallOutcome outcome) {
  if (outcome == CallOutcome::kAnswered) return;
  const std::vector<uint64_t> leases(request.released_lease_ids().begin(),
                                     request.released_lease_ids().end());
  link->Release(connection, ReleaseQueue::Kind::kLease, leases);
}

}  // namespace kvtier

#endif  // KVTIER_CLIENT_RELEASES_ALONG_H_
