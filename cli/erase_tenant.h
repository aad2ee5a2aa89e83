// `kvtier tenant erase`: destroys a tenant's key on the disks of the asked agents.
#ifndef KVTIER_CLI_ERASE_TENANT_H_
#define KVTIER_CLI_ERASE_TENANT_H_

#include <string>
#include <vector>

#include "cli/answers.h"
#include "cli/arguments.h"
#include "cli/outcome.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

using EraseTenantAnswers = std::vector<Answer<v1::EraseTenantResponse>>;

// REQUIRES: arguments.erased_tenant is not empty, and the person said --yes.
Outcome RunEraseTenant(const Arguments& arguments);

std::string EraseTenantTable(const EraseTenantAnswers& answers);
std::string EraseTenantJson(const EraseTenantAnswers& answers);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_ERASE_TENANT_H_
