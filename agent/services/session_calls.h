// SessionCalls() makes the calls by which the descriptor socket asks the agent to open and close
// sessions, and for the memory that it hands to them.
#ifndef KVTIER_AGENT_SERVICES_SESSION_CALLS_H_
#define KVTIER_AGENT_SERVICES_SESSION_CALLS_H_

#include "agent/agent.h"
#include "agent/sessions/descriptor_socket.h"

namespace kvtier {

// Returns the calls; each waits for the agent's executor for microseconds. Does not own `agent`.
DescriptorSocket::Calls SessionCalls(Agent* agent);

}  // namespace kvtier

#endif  // KVTIER_AGENT_SERVICES_SESSION_CALLS_H_
