// CoordinatorConfig is everything an operator can say to kvtier-coordinator, as flags.
#ifndef KVTIER_COORDINATOR_COORDINATOR_CONFIG_H_
#define KVTIER_COORDINATOR_COORDINATOR_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/settings_store.h"

namespace kvtier {

struct CoordinatorConfig {
  std::string listen = "127.0.0.1:7300";  // Agents, status and health, "host:port"; port 0: any.
  std::string socket_dir = "/run/kvtier-coordinator";  // Of the operators' socket; made if missing.
  std::string data_dir;                                // Of the durable settings; made if missing.
  // Silence after which a node's blocks are not located, until the setting
  // node_timeout_ms says otherwise; 100 ms to 1 h.
  absl::Duration node_timeout = absl::Seconds(5);
  bool insecure_listen = false;  // Allows `listen` beyond loopback without TLS.

  // Errors: kInvalidArgument, naming the flag and the value.
  absl::Status Validate() const;
  // What is in force while nothing was set.
  CoordinatorSettings DefaultSettings() const;
};

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_COORDINATOR_CONFIG_H_
