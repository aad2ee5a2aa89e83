#include "cli/tenant_question.h"

#include <algorithm>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/node.h"
#include "core/secret_file.h"
#include "core/status_macros.h"

namespace kvtier::cli {
namespace {

struct MemberOption {
  const char* name;
  std::optional<GroupAccess> access;  // nullopt: the tenants are members no more.
};
constexpr MemberOption kMemberOptions[] = {{"--read", GroupAccess::kRead},
                                           {"--write", GroupAccess::kWrite},
                                           {"--no_member", std::nullopt}};

absl::Status ReadMembers(const MemberOption& option, const std::string& names,
                         TenantChange* change) {
  for (const absl::string_view name : absl::StrSplit(names, ',')) {
    if (!NodeId::FromString(name).ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          option.name, ": '", name, "' is no tenant's name; must be 1 to 63 of [a-zA-Z0-9._-]"));
    }
    if (name == change->name) {
      return absl::InvalidArgumentError(absl::StrCat(
          option.name, ": '", name, "' is the share group itself; name other tenants"));
    }
    const auto is_same = [&](const TenantChange::Member& member) { return member.tenant == name; };
    if (std::ranges::any_of(change->members, is_same)) {
      return absl::InvalidArgumentError(
          absl::StrCat(option.name, ": '", name, "' is named twice; name each member once"));
    }
    change->members.push_back({.tenant = std::string(name), .access = option.access});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TenantQuestion> TenantQuestionFrom(
    const std::string& tenant, const std::map<std::string, std::vector<std::string>>& options) {
  if (!NodeId::FromString(tenant).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tenant's name must be 1 to 63 of [a-zA-Z0-9._-], not '", tenant, "'"));
  }
  TenantQuestion question{.change = {.name = tenant}};
  if (const auto file = options.find("--secret_file"); file != options.end()) {
    question.secret_file = file->second.front();
  }
  for (const Tier tier : {Tier::kHost, Tier::kDisk, Tier::kGpu}) {
    for (const ShareField field : kAllShareFields) {
      const std::string name = absl::StrCat("--", SettingName(tier, field));
      const auto found = options.find(name);
      if (found == options.end()) continue;
      const auto value = ParseSettingValue(field, found->second.front());
      if (!value.ok()) {
        return absl::InvalidArgumentError(absl::StrCat(name, ": ", value.status().message()));
      }
      question.change.values.push_back({.tier = tier, .field = field, .value = *value});
    }
  }
  for (const MemberOption& option : kMemberOptions) {
    const auto found = options.find(option.name);
    if (found == options.end()) continue;
    KVT_RETURN_IF_ERROR(ReadMembers(option, found->second.front(), &question.change));
  }
  return question;
}

absl::StatusOr<std::string> ReadSecret(const std::string& path) {
  absl::StatusOr<std::string> secret = ReadSecretFileOrPipe(path);
  if (secret.ok()) return secret;
  return absl::InvalidArgumentError(
      absl::StrCat("--secret_file=", path, ": ", secret.status().message()));
}

}  // namespace kvtier::cli
