// NodeFacts is what `kvtier doctor` reads of the machine it runs on, before anything is concluded
// from it. GatherNodeFacts() looks; socket_findings.h, machine_findings.h and space_findings.h say
// what it means.
#ifndef KVTIER_CLI_NODE_FACTS_H_
#define KVTIER_CLI_NODE_FACTS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

// A file in the agent's --socket_dir.
struct SocketFacts {
  std::string name;
  bool exists = false;
  bool is_socket = false;
  uid_t owner = 0;
  gid_t group = 0;
  mode_t mode = 0;        // Permission bits.
  int connect_error = 0;  // errno of connect(); 0: somebody listens.
};

// A line of /proc/self/uid_map: `count` ids from `inside` on are `outside` and up in the parent
// user namespace.
struct UidRange {
  uint32_t inside = 0;
  uint32_t outside = 0;
  uint32_t count = 0;
};

struct DiskFacts {
  std::string directory;
  int open_error = 0;    // errno of a file made there; 0: it is writable.
  int direct_error = 0;  // Same with O_DIRECT.
};

struct NodeFacts {
  // Sockets, and who connects.
  std::string socket_dir;
  int directory_error = 0;  // errno of looking into it; 0: it is there and may be entered.
  std::vector<SocketFacts> sockets;
  uint32_t uid = 0;        // User of the worker that is asked about.
  bool uid_named = false;  // Whether --uid names it; if not, it is own_uid.
  uint32_t own_uid = 0;    // User of this process.
  std::vector<UidRange> uid_map;
  // Whether this process and the agent share it; nullopt: they cannot be compared from here.
  std::optional<bool> same_user_namespace;
  std::optional<bool> same_pid_namespace;
  std::optional<bool> same_time_namespace;

  // The agent's answers. `session` is the result of a handshake as a tenant that does not exist: a
  // refusal for this reason says that everything before it worked.
  absl::Status session;
  absl::StatusOr<v1::AgentStatusResponse> status = absl::UnknownError("not asked");
  absl::StatusOr<v1::DescribeSharingResponse> sharing = absl::UnknownError("not asked");

  // The machine.
  std::string kernel;                     // "6.1.0-18-amd64".
  std::optional<uint64_t> memlock_bytes;  // RLIMIT_MEMLOCK; nullopt: it limits nothing.
  bool memlock_of_agent = false;  // Whether the limit is the agent's, or else this process's.
  std::optional<uint64_t> memory_max_bytes;  // Limit of this process's cgroup; nullopt: none.
  int memfd_error = 0;                       // errno of making a sealed memfd; 0: it works.
  bool huge_pages = false;                   // Whether the memfd can have a page of 2 MiB.
  std::string shmem_enabled;                 // Kernel's setting; empty: the kernel has none.
  int io_uring_error = 0;                    // errno of making a ring; 0: it works.
  std::optional<int> io_uring_disabled;      // kernel.io_uring_disabled.
  int peer_pidfd_error = 0;                  // errno of SO_PEERPIDFD; 0: it works.
  std::vector<DiskFacts> disks;  // Disks that the command line names, or else those of the agent.
};

// Looks at this machine and asks the agent of arguments.socket_dir. Makes no lasting change.
NodeFacts GatherNodeFacts(const Arguments& arguments);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_NODE_FACTS_H_
