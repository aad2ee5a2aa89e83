// TenantQuestion has the arguments of `kvtier tenants describe`, `set` and `drop`: the tenant and
// what is to change.
#ifndef KVTIER_CLI_TENANT_QUESTION_H_
#define KVTIER_CLI_TENANT_QUESTION_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tenant_settings.h"

namespace kvtier::cli {

struct TenantQuestion {
  TenantChange change;      // Change with the tenant's name; settings that it does not name stay.
  std::string secret_file;  // File of the secret; empty: none.
};

// Returns what the options say of the tenant. Errors: kInvalidArgument, which names the option and
// its value, or the tenant.
absl::StatusOr<TenantQuestion> TenantQuestionFrom(
    const std::string& tenant, const std::map<std::string, std::vector<std::string>>& options);

// Returns the secret that the file or pipe holds (core/secret_file.h). Errors: kInvalidArgument,
// naming the file: it cannot be read, is a device or a directory, has a mode that is refused, still
// changes, or holds no secret.
absl::StatusOr<std::string> ReadSecret(const std::string& path);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_TENANT_QUESTION_H_
