#include "core/tenant_settings.h"

#include <algorithm>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/byte_size.h"
#include "core/node.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

constexpr const char* kFieldNames[] = {"guaranteed", "maximum", "weight"};

// Returns "tenant 'acme', host_weight: WHY".
absl::Status Refused(const TenantSettings& settings, Tier tier, ShareField field,
                     const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("tenant '", settings.name, "', ", SettingName(tier, field), ": ", why));
}

// Adds without wrapping around, because operators may name guarantees of any size.
uint64_t AddUpTo(uint64_t a, uint64_t b) { return b > UINT64_MAX - a ? UINT64_MAX : a + b; }

uint64_t NamedGuarantee(const TenantSettings& settings, Tier tier) {
  return settings.Of(tier, ShareField::kGuaranteed).value_or(0);
}

// Reads "acme:write,beta:read" into the settings.
absl::Status ReadMembers(absl::string_view text, TenantSettings* settings) {
  for (const absl::string_view member : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(member, absl::MaxSplits(':', 1));
    std::optional<GroupAccess> access;
    for (const GroupAccess one : {GroupAccess::kRead, GroupAccess::kWrite}) {
      if (parts.second == AccessName(one)) access = one;
    }
    if (!access.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "members: '", member, "' is no member; must be TENANT:read or TENANT:write"));
    }
    if (!settings->members.emplace(parts.first, *access).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("members: '", parts.first, "' comes twice; must be named once"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMembers(const TenantSettings& settings) {
  const auto refused = [&](const auto&... why) {
    return absl::InvalidArgumentError(
        absl::StrCat("tenant '", settings.name, "', members: ", why...));
  };
  if (settings.members.size() > kMaxGroupMembers) {
    return refused(settings.members.size(), " tenants; must be at most ", kMaxGroupMembers);
  }
  for (const auto& [tenant, access] : settings.members) {
    if (!NodeId::FromString(tenant).ok()) {
      return refused("'", tenant,
                     "'; must be 1 to 63 of [a-zA-Z0-9._-], starting with a letter or digit");
    }
    if (tenant == settings.name) {
      return refused("'", tenant, "' is the share group itself; name other tenants");
    }
  }
  return absl::OkStatus();
}

void PutMembers(const GroupMembers& members, SummedWriter* to) {
  to->Put(static_cast<uint32_t>(members.size()));
  for (const auto& [tenant, access] : members) {
    to->Put(static_cast<uint8_t>(tenant.size()));
    to->PutBytes(tenant);
    to->Put(static_cast<uint8_t>(access));
  }
}

// Returns nullopt as TakeTenantSettings() does.
std::optional<GroupMembers> TakeMembers(SummedReader* from) {
  const auto count = from->Take<uint32_t>();
  if (!count.has_value() || *count > kMaxGroupMembers) return std::nullopt;
  GroupMembers members;
  for (uint32_t i = 0; i < *count; ++i) {
    const auto length = from->Take<uint8_t>();
    const auto tenant = from->TakeBytes(length.value_or(0));
    const auto access = from->Take<uint8_t>();
    if (!length.has_value() || !tenant.has_value() || !access.has_value()) return std::nullopt;
    if (*access != static_cast<uint8_t>(GroupAccess::kRead) &&
        *access != static_cast<uint8_t>(GroupAccess::kWrite)) {
      return std::nullopt;
    }
    members.emplace(*tenant, static_cast<GroupAccess>(*access));
  }
  return members;
}

// Reads "host_guaranteed=10GiB" into the settings.
absl::Status ReadWord(absl::string_view word, TenantSettings* settings) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(word, absl::MaxSplits('=', 1));
  if (parts.first == "members") return ReadMembers(parts.second, settings);
  for (const Tier tier : kAllTiers) {
    for (const ShareField field : kAllShareFields) {
      if (parts.first != SettingName(tier, field)) continue;
      KVT_ASSIGN_OR_RETURN(settings->Of(tier, field), ParseSettingValue(field, parts.second));
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", word,
                   "' is no setting; must be {host,disk,gpu}_{guaranteed,maximum,weight}=VALUE, or "
                   "members=TENANT:read,TENANT:write"));
}

}  // namespace

absl::string_view AccessName(GroupAccess access) {
  return access == GroupAccess::kWrite ? "write" : "read";
}

std::string SettingName(Tier tier, ShareField field) {
  return absl::StrCat(TierName(tier), "_", kFieldNames[static_cast<size_t>(field)]);
}

absl::Status TenantSettings::Validate() const {
  if (!NodeId::FromString(name).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tenant name '", name,
                     "'; must be 1 to 63 of [a-zA-Z0-9._-], starting with a letter or digit"));
  }
  for (const Tier tier : kAllTiers) {
    const std::optional<uint64_t>& weight = Of(tier, ShareField::kWeight);
    if (weight.has_value() && (*weight < 1 || *weight > kMaxShareWeight)) {
      return Refused(*this, tier, ShareField::kWeight,
                     absl::StrCat(*weight, "; must be 1 to ", kMaxShareWeight));
    }
    const std::optional<uint64_t>& maximum = Of(tier, ShareField::kMaximum);
    if (maximum.has_value() && NamedGuarantee(*this, tier) > *maximum) {
      return Refused(
          *this, tier, ShareField::kGuaranteed,
          absl::StrCat(NamedGuarantee(*this, tier), "; must be at most ",
                       SettingName(tier, ShareField::kMaximum), ", which is ", *maximum));
    }
  }
  return CheckMembers(*this);
}

absl::StatusOr<TenantSettings> TenantChange::In(TenantSettings settings) const {
  settings.name = name;
  for (const Value& value : values) settings.Of(value.tier, value.field) = value.value;
  for (const Member& member : members) {
    if (member.access.has_value()) {
      settings.members.insert_or_assign(member.tenant, *member.access);
    } else {
      settings.members.erase(member.tenant);
    }
  }
  KVT_RETURN_IF_ERROR(settings.Validate());
  return settings;
}

absl::Status CheckMayKeep(const TenantSettingsMap& settings, absl::string_view changed) {
  size_t members = 0;
  for (const auto& [name, one] : settings) members += one.members.size();
  if (settings.size() > kMaxTenantSettings) {
    return absl::ResourceExhaustedError(
        absl::StrCat("tenant '", changed, "': settings of ", kMaxTenantSettings,
                     " tenants are stored already, the most that may be; drop one"));
  }
  if (members > kMaxGroupMembers) {
    return absl::ResourceExhaustedError(
        absl::StrCat("tenant '", changed, "': all share groups would have ", members,
                     " members; must be at most ", kMaxGroupMembers, " together"));
  }
  return absl::OkStatus();
}

absl::Status CheckGuaranteesFit(Tier tier, uint64_t capacity, const TenantSettings& changed,
                                std::span<const TenantSettings> others) {
  const uint64_t own = NamedGuarantee(changed, tier);
  uint64_t sum = own;
  for (const TenantSettings& other : others) sum = AddUpTo(sum, NamedGuarantee(other, tier));
  if (own == 0 || sum <= capacity) return absl::OkStatus();
  return Refused(changed, tier, ShareField::kGuaranteed,
                 absl::StrCat(own, "; with it the guarantees of all tenants would be ", sum,
                              " bytes, and the tier has ", capacity));
}

std::vector<TierShare> SharesOf(Tier tier, uint64_t capacity,
                                std::span<const TenantSettings> settings) {
  absl::uint128 named = 0;
  size_t unnamed = 0;
  for (const TenantSettings& one : settings) {
    named += NamedGuarantee(one, tier);
    if (!one.Of(tier, ShareField::kGuaranteed).has_value()) ++unnamed;
  }
  const bool fits = named <= capacity;
  const uint64_t left = fits ? capacity - absl::Uint128Low64(named) : 0;
  std::vector<TierShare> shares;
  shares.reserve(settings.size());
  for (const TenantSettings& one : settings) {
    TierShare& share = shares.emplace_back();
    share.maximum = one.Of(tier, ShareField::kMaximum).value_or(UINT64_MAX);
    share.weight = static_cast<uint32_t>(one.Of(tier, ShareField::kWeight).value_or(1));
    const std::optional<uint64_t>& guaranteed = one.Of(tier, ShareField::kGuaranteed);
    if (!guaranteed.has_value()) {
      share.guaranteed = std::min(share.maximum, left / unnamed);
    } else if (fits) {
      share.guaranteed = *guaranteed;
    } else {
      share.guaranteed =
          absl::Uint128Low64(absl::uint128(*guaranteed) * absl::uint128(capacity) / named);
    }
  }
  return shares;
}

void PutTenantSettings(const TenantSettingsMap& settings, SummedWriter* to) {
  to->Put(static_cast<uint32_t>(settings.size()));
  for (const auto& [name, one] : settings) {
    to->Put(static_cast<uint8_t>(name.size()));
    to->PutBytes(name);
    for (const Tier tier : kAllTiers) {
      for (const ShareField field : kAllShareFields) {
        const std::optional<uint64_t>& value = one.Of(tier, field);
        to->Put(static_cast<uint8_t>(value.has_value()));
        to->Put(value.value_or(0));
      }
    }
    PutMembers(one.members, to);
  }
}

std::optional<TenantSettingsMap> TakeTenantSettings(uint32_t form, SummedReader* from) {
  const auto count = from->Take<uint32_t>();
  if (!count.has_value() || *count > kMaxTenantSettings) return std::nullopt;
  TenantSettingsMap settings;
  for (uint32_t i = 0; i < *count; ++i) {
    const auto length = from->Take<uint8_t>();
    const auto name = from->TakeBytes(length.value_or(0));
    if (!length.has_value() || !name.has_value()) return std::nullopt;
    TenantSettings one{.name = std::string(*name)};
    for (const Tier tier : kAllTiers) {
      for (const ShareField field : kAllShareFields) {
        const auto is_set = from->Take<uint8_t>();
        const auto value = from->Take<uint64_t>();
        if (!is_set.has_value() || !value.has_value() || *is_set > 1) return std::nullopt;
        if (*is_set == 1) one.Of(tier, field) = *value;
      }
    }
    if (form > kMinTenantSettingsForm) {
      std::optional<GroupMembers> members = TakeMembers(from);
      if (!members.has_value()) return std::nullopt;
      one.members = *std::move(members);
    }
    if (!one.Validate().ok()) return std::nullopt;
    settings.insert_or_assign(one.name, one);
  }
  if (!CheckMayKeep(settings, "").ok()) return std::nullopt;
  return settings;
}

absl::StatusOr<std::optional<uint64_t>> ParseSettingValue(ShareField field,
                                                          absl::string_view text) {
  if (text == "default") return std::nullopt;
  if (field == ShareField::kWeight) {
    uint32_t weight = 0;
    if (!absl::SimpleAtoi(text, &weight)) {
      return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no weight; must be 1 to ",
                                                     kMaxShareWeight, ", or default"));
    }
    return weight;
  }
  const absl::StatusOr<uint64_t> bytes = ParseBytes(text);
  if (!bytes.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is no size; must be one such as 10GiB, or default"));
  }
  return *bytes;
}

absl::StatusOr<TenantSettingsMap> ParseTenantSettings(absl::string_view text) {
  TenantSettingsMap settings;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const auto refused = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", why));
    };
    line = line.substr(0, line.find('#'));
    TenantSettings one;
    for (const absl::string_view word :
         absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty())) {
      if (one.name.empty()) {
        one.name = std::string(word);
        continue;
      }
      const absl::Status read = ReadWord(word, &one);
      if (!read.ok()) return refused(read.message());
    }
    if (one.name.empty()) continue;
    if (const absl::Status valid = one.Validate(); !valid.ok()) return refused(valid.message());
    if (!settings.emplace(one.name, one).second) {
      return refused(absl::StrCat("tenant '", one.name, "' comes twice"));
    }
    if (const absl::Status kept = CheckMayKeep(settings, one.name); !kept.ok()) {
      return refused(kept.message());
    }
  }
  return settings;
}

}  // namespace kvtier
