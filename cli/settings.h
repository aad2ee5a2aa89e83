// `kvtier settings`: reads and writes the coordinator's durable settings.
#ifndef KVTIER_CLI_SETTINGS_H_
#define KVTIER_CLI_SETTINGS_H_

#include <string>

#include "cli/arguments.h"
#include "cli/outcome.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

// Returns kNotFound when the one setting that was asked for is not there.
Outcome RunSettings(const Arguments& arguments);

std::string SettingsTable(const v1::GetSettingsResponse& response);
std::string SettingsJson(const v1::GetSettingsResponse& response);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_SETTINGS_H_
