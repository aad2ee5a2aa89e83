// Names and modes of the Unix sockets on which operators are answered, and the mode of those
// for workers, whose names are in proto/session_wire.h.
#ifndef KVTIER_PROTO_SOCKET_NAMES_H_
#define KVTIER_PROTO_SOCKET_NAMES_H_

#include <sys/types.h>

namespace kvtier {

// Names of the admin sockets in the agent's --socket_dir and in the coordinator's. They differ, so
// that one directory may serve both programs.
inline constexpr char kAgentAdminSocketName[] = "kvtier-admin.sock";
inline constexpr char kCoordinatorAdminSocketName[] = "kvtier-coordinator.sock";

inline constexpr mode_t kAdminSocketMode = 0600;   // Mode for root and the program's own user.
inline constexpr mode_t kWorkerSocketMode = 0660;  // Mode that admits the group, too.

}  // namespace kvtier

#endif  // KVTIER_PROTO_SOCKET_NAMES_H_
