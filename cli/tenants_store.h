// `kvtier tenants export`, `import` and `init`: the settings of tenants that hold on all nodes, as
// one store that an operator copies, brings back and begins.
#ifndef KVTIER_CLI_TENANTS_STORE_H_
#define KVTIER_CLI_TENANTS_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/json.h"
#include "cli/outcome.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

Outcome RunExportTenants(const Arguments& arguments);
Outcome RunImportTenants(const Arguments& arguments);
Outcome RunInitTenants(const Arguments& arguments);

// Returns "version 7 of store 00112233445566ff"; "unknown" for version 0.
std::string StoreText(uint64_t store, uint64_t version);
// Writes the same as two members, of which the store is null where there is none.
void WriteStore(uint64_t store, uint64_t version, JsonWriter* json);
// Returns a sentence for each store whose settings nodes follow instead of the coordinator's, and
// what to do about it.
std::vector<std::string> SettingsComplaints(const v1::CoordinatorStatusResponse& status);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_TENANTS_STORE_H_
