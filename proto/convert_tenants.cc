#include "proto/convert_tenants.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/node.h"
#include "core/status_macros.h"
#include "proto/convert.h"

namespace kvtier::convert {
namespace {

// Values that one message may have: each field of each tier once.
constexpr int kMaxValues = static_cast<int>(kTierCount * kAllShareFields.size());

absl::StatusOr<ShareField> ShareFieldFrom(v1::ShareField wire, const std::string& field) {
  switch (wire) {
    case v1::SHARE_GUARANTEED:
      return ShareField::kGuaranteed;
    case v1::SHARE_MAXIMUM:
      return ShareField::kMaximum;
    case v1::SHARE_WEIGHT:
      return ShareField::kWeight;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(field, " is ", static_cast<int>(wire),
                       "; must be 1 (guaranteed), 2 (maximum) or 3 (weight)"));
  }
}

absl::StatusOr<std::vector<TenantChange::Member>> MembersFrom(const v1::TenantSettings& wire) {
  if (static_cast<size_t>(wire.members_size()) > kMaxGroupMembers) {
    return absl::InvalidArgumentError(absl::StrCat("settings.members has ", wire.members_size(),
                                                   " entries; must be at most ", kMaxGroupMembers));
  }
  std::vector<TenantChange::Member> members;
  members.reserve(static_cast<size_t>(wire.members_size()));
  for (const v1::GroupMember& member : wire.members()) {
    const std::string field = absl::StrCat("settings.members[", members.size(), "]");
    if (!NodeId::FromString(member.tenant()).ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".tenant is '", member.tenant().substr(0, kMaxNodeIdBytes + 1),
                       "'; must be 1 to 63 of [a-zA-Z0-9._-], starting alphanumeric"));
    }
    if (member.access() < v1::GROUP_ACCESS_NONE || member.access() > v1::GROUP_ACCESS_WRITE) {
      return absl::InvalidArgumentError(absl::StrCat(field, ".access is ",
                                                     static_cast<int>(member.access()),
                                                     "; must be 0 (none), 1 (read) or 2 (write)"));
    }
    TenantChange::Member& taken = members.emplace_back();
    taken.tenant = member.tenant();
    if (member.access() == v1::GROUP_ACCESS_READ) taken.access = GroupAccess::kRead;
    if (member.access() == v1::GROUP_ACCESS_WRITE) taken.access = GroupAccess::kWrite;
  }
  return members;
}

v1::GroupAccess ToWire(const std::optional<GroupAccess>& access) {
  if (!access.has_value()) return v1::GROUP_ACCESS_NONE;
  return *access == GroupAccess::kWrite ? v1::GROUP_ACCESS_WRITE : v1::GROUP_ACCESS_READ;
}

v1::ShareField ToWire(ShareField field) {
  switch (field) {
    case ShareField::kGuaranteed:
      return v1::SHARE_GUARANTEED;
    case ShareField::kMaximum:
      return v1::SHARE_MAXIMUM;
    case ShareField::kWeight:
      break;
  }
  return v1::SHARE_WEIGHT;
}

}  // namespace

absl::StatusOr<TenantChange> TenantChangeFrom(const v1::TenantSettings& wire) {
  if (!NodeId::FromString(wire.name()).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("settings.name is '", wire.name().substr(0, kMaxNodeIdBytes + 1),
                     "'; must be 1 to 63 of [a-zA-Z0-9._-], starting alphanumeric"));
  }
  if (wire.values_size() > kMaxValues) {
    return absl::InvalidArgumentError(absl::StrCat("settings.values has ", wire.values_size(),
                                                   " entries; must be at most ", kMaxValues));
  }
  TenantChange change{.name = wire.name()};
  for (const v1::TenantSetting& value : wire.values()) {
    const std::string field = absl::StrCat("settings.values[", change.values.size(), "]");
    TenantChange::Value& taken = change.values.emplace_back();
    KVT_ASSIGN_OR_RETURN(taken.tier, TierFrom(value.tier(), (field + ".tier").c_str()));
    KVT_ASSIGN_OR_RETURN(taken.field, ShareFieldFrom(value.field(), field + ".field"));
    if (value.has_value()) taken.value = value.value();
  }
  // An impossible value is refused here, whatever the tenant's other settings are.
  for (const TenantChange::Value& value : change.values) {
    if (value.field != ShareField::kWeight || !value.value.has_value()) continue;
    if (*value.value >= 1 && *value.value <= kMaxShareWeight) continue;
    return absl::InvalidArgumentError(absl::StrCat(SettingName(value.tier, value.field), " is ",
                                                   *value.value, "; must be 1 to ",
                                                   kMaxShareWeight));
  }
  KVT_ASSIGN_OR_RETURN(change.members, MembersFrom(wire));
  return change;
}

absl::StatusOr<ClusterTenants> ClusterTenantsFrom(const v1::ClusterTenants& wire) {
  if (static_cast<size_t>(wire.tenants_size()) > kMaxTenantSettings) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tenants has ", wire.tenants_size(), " entries; must be at most ", kMaxTenantSettings));
  }
  if (wire.version() == 0 || wire.version() > kMaxSettingsVersion) {
    return absl::InvalidArgumentError(absl::StrCat("tenants.version is ", wire.version(),
                                                   "; must be 1 to ", kMaxSettingsVersion));
  }
  if (static_cast<size_t>(wire.replaced_size()) > kMaxReplacedStores) {
    return absl::InvalidArgumentError(absl::StrCat("tenants.replaced has ", wire.replaced_size(),
                                                   " entries; must be at most ",
                                                   kMaxReplacedStores));
  }
  ClusterTenants tenants{.store = wire.store(),
                         .version = wire.version(),
                         .replaced = {wire.replaced().begin(), wire.replaced().end()}};
  size_t members = 0;
  for (const v1::TenantSettings& tenant : wire.tenants()) {
    KVT_ASSIGN_OR_RETURN(const TenantChange change, TenantChangeFrom(tenant));
    KVT_ASSIGN_OR_RETURN(TenantSettings one, change.In({}));
    members += one.members.size();
    if (members > kMaxGroupMembers) {
      return absl::InvalidArgumentError(absl::StrCat("tenants: members of all share groups are ",
                                                     members, " or more; must be at most ",
                                                     kMaxGroupMembers));
    }
    if (!tenants.settings.emplace(one.name, one).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("tenants: '", one.name, "' a second time; must be told once"));
    }
  }
  return tenants;
}

v1::TenantSettings ToWire(const TenantChange& change) {
  v1::TenantSettings wire;
  wire.set_name(change.name);
  for (const TenantChange::Value& value : change.values) {
    v1::TenantSetting* const told = wire.add_values();
    told->set_tier(ToWire(value.tier));
    told->set_field(ToWire(value.field));
    if (value.value.has_value()) told->set_value(*value.value);
  }
  for (const TenantChange::Member& member : change.members) {
    v1::GroupMember* const told = wire.add_members();
    told->set_tenant(member.tenant);
    told->set_access(ToWire(member.access));
  }
  return wire;
}

v1::TenantSettings ToWire(const TenantSettings& settings) {
  TenantChange change{.name = settings.name};
  for (const Tier tier : kAllTiers) {
    for (const ShareField field : kAllShareFields) {
      const std::optional<uint64_t>& value = settings.Of(tier, field);
      if (value.has_value())
        change.values.push_back({.tier = tier, .field = field, .value = value});
    }
  }
  for (const auto& [tenant, access] : settings.members) {
    change.members.push_back({.tenant = tenant, .access = access});
  }
  return ToWire(change);
}

v1::ClusterTenants ToWire(const ClusterTenants& tenants) {
  v1::ClusterTenants wire;
  wire.set_store(tenants.store);
  wire.set_version(tenants.version);
  for (const uint64_t store : tenants.replaced) wire.add_replaced(store);
  for (const auto& [name, one] : tenants.settings) *wire.add_tenants() = ToWire(one);
  return wire;
}

}  // namespace kvtier::convert
