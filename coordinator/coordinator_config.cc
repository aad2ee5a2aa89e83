#include "coordinator/coordinator_config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/address.h"

namespace kvtier {

absl::Status CoordinatorConfig::Validate() const {
  const absl::StatusOr<HostPort> address = ParseHostPort(listen);
  if (!address.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--listen: ", address.status().message()));
  }
  if (!address->IsLoopback() && !insecure_listen) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen=", listen,
                     ": other machines could reach it and there is no TLS yet; listen on "
                     "127.0.0.1, or allow it with --insecure_listen"));
  }
  if (socket_dir.empty()) {
    return absl::InvalidArgumentError("--socket_dir is empty; must name a directory");
  }
  if (data_dir.empty()) {
    return absl::InvalidArgumentError("--data_dir is empty; must name a directory");
  }
  const absl::Status timeout = DefaultSettings().Validate();
  if (timeout.ok()) return timeout;
  return absl::InvalidArgumentError(
      absl::StrCat("--node_timeout=", absl::FormatDuration(node_timeout), ": ", timeout.message()));
}

CoordinatorSettings CoordinatorConfig::DefaultSettings() const {
  return {.node_timeout = node_timeout,
          .forget_after = std::max(node_timeout, CoordinatorSettings().forget_after)};
}

}  // namespace kvtier
