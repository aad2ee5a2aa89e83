// CoordinatorConfig is everything that an operator can configure in kvtier-coordinator, as flags.
#ifndef KVTIER_COORDINATOR_COORDINATOR_CONFIG_H_
#define KVTIER_COORDINATOR_COORDINATOR_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/settings_store.h"

namespace kvtier {

struct CoordinatorConfig {
  // Address for agents, status and health, "host:port"; port 0: any.
  std::string listen = "127.0.0.1:7300";
  // Directory of the operators' socket; made if missing.
  std::string socket_dir = "/run/kvtier-coordinator";
  std::string data_dir;  // Directory of the durable settings; made if missing.
  // Silence after which a node's blocks are not located; the setting node_timeout_ms overrides it.
  // 100 ms to 1 h.
  absl::Duration node_timeout = absl::Seconds(5);
  bool insecure_listen = false;  // Whether `listen` may be beyond loopback without TLS.

  // Returns kInvalidArgument, naming the flag and the value, if a field is out of range.
  absl::Status Validate() const;
  // Returns the settings in force while none was set.
  CoordinatorSettings DefaultSettings() const;
};

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_COORDINATOR_CONFIG_H_
