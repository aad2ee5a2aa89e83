#include "cli/command.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/arguments.h"
#include "cli/disk_info.h"
#include "cli/disk_verify.h"
#include "cli/doctor.h"
#include "cli/erase_tenant.h"
#include "cli/evict.h"
#include "cli/gpu_resize.h"
#include "cli/help.h"
#include "cli/host_memory.h"
#include "cli/lookup.h"
#include "cli/nodes.h"
#include "cli/pins.h"
#include "cli/settings.h"
#include "cli/size.h"
#include "cli/status.h"
#include "cli/tenant_shares.h"
#include "cli/tenants.h"
#include "cli/tenants_store.h"
#include "cli/tiers.h"
#include "cli/version.h"

namespace kvtier::cli {
namespace {

Outcome Run(const Arguments& arguments, const Progress& progress) {
  switch (arguments.verb) {
    case Verb::kStatus:
      return RunStatus(arguments);
    case Verb::kNodes:
      return RunNodes(arguments);
    case Verb::kTiers:
      return RunTiers(arguments);
    case Verb::kTenants:
      return RunTenants(arguments);
    case Verb::kTenantDescribe:
      return RunDescribeTenant(arguments);
    case Verb::kTenantSet:
      return RunSetTenant(arguments);
    case Verb::kTenantDrop:
      return RunDropTenant(arguments);
    case Verb::kTenantsExport:
      return RunExportTenants(arguments);
    case Verb::kTenantsImport:
      return RunImportTenants(arguments);
    case Verb::kTenantsInit:
      return RunInitTenants(arguments);
    case Verb::kDiskInfo:
      return RunDiskInfo(arguments);
    case Verb::kDoctor:
      return RunDoctor(arguments);
    case Verb::kLookup:
      return RunLookup(arguments);
    case Verb::kEvict:
      return RunEvict(arguments);
    case Verb::kTenantErase:
      return RunEraseTenant(arguments);
    case Verb::kPinsList:
      return RunPinsList(arguments);
    case Verb::kPinsDrop:
      return RunPinsDrop(arguments);
    case Verb::kPrefixDrop:
      return RunPrefixDrop(arguments);
    case Verb::kGpuResize:
      return RunGpuResize(arguments);
    case Verb::kHostResize:
      return RunHostResize(arguments);
    case Verb::kDiskVerify:
      return RunDiskVerify(arguments, progress);
    case Verb::kSettings:
      return RunSettings(arguments);
    case Verb::kSize:
      return RunSize(arguments);
    case Verb::kVersion:
      return RunVersion(arguments);
    case Verb::kHelp:
      return RunHelp(arguments);
    case Verb::kMan:
      return RunMan(arguments);
    case Verb::kCompletion:
      return RunCompletion(arguments);
  }
  return {.code = ExitCode::kUsage};
}

}  // namespace

Outcome RunCommand(std::span<const std::string> words, const Progress& progress) {
  const absl::StatusOr<Arguments> arguments = ParseArguments(words);
  if (!arguments.ok()) {
    return {.code = ExitCode::kUsage,
            .err = absl::StrCat("kvtier: ", arguments.status().message(), "\n")};
  }
  return Run(*arguments, progress);
}

}  // namespace kvtier::cli
