#include "cli/tenant_question.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ios>
#include <optional>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/node.h"
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
  const auto refused = [&](const auto&... why) {
    return absl::InvalidArgumentError(absl::StrCat("--secret_file=", path, ": ", why...));
  };
  std::error_code error;
  const std::filesystem::file_status file = std::filesystem::status(path, error);
  // Anything else, such as a device, may have no end.
  if (!std::filesystem::is_regular_file(file) && !std::filesystem::is_fifo(file)) {
    return refused(
        error ? absl::StrCat("cannot be read: ", error.message()) : "is neither a file nor a pipe",
        "; name a readable file");
  }
  std::ifstream stream(path, std::ios::binary);
  // A secret, the newline at its end, and one byte that tells that there is more.
  std::string secret(kMaxSecretBytes + 2, '\0');
  stream.read(secret.data(), static_cast<std::streamsize>(secret.size()));
  if (!stream && !stream.eof()) return refused("cannot be read; name a readable file");
  secret.resize(static_cast<size_t>(stream.gcount()));
  if (absl::EndsWith(secret, "\n")) secret.pop_back();
  if (secret.size() > kMaxSecretBytes) {
    return refused("has more than ", kMaxSecretBytes, " bytes; must have 1 to ", kMaxSecretBytes);
  }
  if (secret.empty()) return refused("has no bytes; must have 1 to ", kMaxSecretBytes);
  return secret;
}

}  // namespace kvtier::cli
