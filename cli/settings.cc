#include "cli/settings.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/admin_client.h"
#include "cli/answers.h"
#include "cli/json.h"
#include "cli/table.h"

namespace kvtier::cli {
namespace {

// Returns only the setting called `name`; all of them when it is empty.
v1::GetSettingsResponse Only(const std::string& name, const v1::GetSettingsResponse& all) {
  if (name.empty()) return all;
  v1::GetSettingsResponse only;
  for (const v1::Setting& setting : all.settings()) {
    if (setting.name() == name) *only.add_settings() = setting;
  }
  return only;
}

Outcome Set(const Arguments& arguments, const std::string& address) {
  v1::SetSettingRequest request;
  request.mutable_setting()->set_name(arguments.setting_name);
  request.mutable_setting()->set_value(*arguments.setting_value);
  const auto response = CoordinatorAdmin(address, arguments.timeout).SetSetting(request);
  if (!response.ok()) return Failure(arguments, address, response.status());
  v1::GetSettingsResponse written;
  *written.add_settings() = request.setting();
  return {.out =
              arguments.format == Format::kJson ? SettingsJson(written) : SettingsTable(written)};
}

}  // namespace

std::string SettingsTable(const v1::GetSettingsResponse& response) {
  if (response.settings().empty()) return "Nothing is set.\n";
  Table table({{"NAME"}, {"VALUE"}});
  for (const v1::Setting& setting : response.settings()) {
    table.AddRow({setting.name(), setting.value()});
  }
  return table.ToString();
}

std::string SettingsJson(const v1::GetSettingsResponse& response) {
  JsonWriter json;
  json.OpenArray("settings");
  for (const v1::Setting& setting : response.settings()) {
    json.OpenElement();
    json.Text("name", setting.name());
    json.Text("value", setting.value());
    json.Close();
  }
  json.Close();
  return json.Finish();
}

Outcome RunSettings(const Arguments& arguments) {
  const absl::StatusOr<std::string> address = CoordinatorAddress(arguments);
  if (!address.ok()) return Failure(arguments, arguments.agents[0], address.status());
  if (arguments.setting_value) return Set(arguments, *address);

  const auto all = CoordinatorAdmin(*address, arguments.timeout).GetSettings();
  if (!all.ok()) return Failure(arguments, *address, all.status());
  const v1::GetSettingsResponse shown = Only(arguments.setting_name, *all);
  if (shown.settings().empty() && !arguments.setting_name.empty()) {
    return Failure(
        arguments, *address,
        absl::NotFoundError(absl::StrCat("no setting is called '", arguments.setting_name, "'")));
  }
  return {.out = arguments.format == Format::kJson ? SettingsJson(shown) : SettingsTable(shown)};
}

}  // namespace kvtier::cli
