// Builds answers of an agent about its tenants, for tests of what is shown of them.
#ifndef KVTIER_TESTS_CLI_TENANT_REPORTS_H_
#define KVTIER_TESTS_CLI_TENANT_REPORTS_H_

#include <cstdint>
#include <string>

#include "kvtier/v1/admin.pb.h"

namespace kvtier::testing {

// Adds a tenant that has a GiB of host memory more than it uses, and no maximum; returns it.
inline v1::TenantReport* AddTenant(const std::string& name, uint64_t used_gib,
                                   uint64_t guaranteed_gib, v1::ListTenantsResponse* response) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  v1::TenantReport* const tenant = response->add_tenants();
  tenant->set_name(name);
  tenant->set_host_capacity_bytes((used_gib + 1) * kGiB);
  tenant->set_host_used_bytes(used_gib * kGiB);
  tenant->mutable_host()->set_guaranteed_bytes(guaranteed_gib * kGiB);
  tenant->mutable_host()->set_maximum_bytes(UINT64_MAX);
  return tenant;
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_CLI_TENANT_REPORTS_H_
