// TenantSettings are what operators say of one tenant: how much of each tier it may have, and which
// other tenants may use its blocks. A setting that is not named has its default. A tenant's secret
// is no setting, and never here.
//
// Pure; any thread.
#ifndef KVTIER_CORE_TENANT_SETTINGS_H_
#define KVTIER_CORE_TENANT_SETTINGS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/summed_bytes.h"
#include "core/tier.h"
#include "core/tier_share.h"

namespace kvtier {

// Tenants that settings are kept of, on a node or by a coordinator.
inline constexpr size_t kMaxTenantSettings = 1024;
// Members of all share groups of such settings together.
inline constexpr size_t kMaxGroupMembers = 8192;
// Form of the files that have settings. The first form had no members, and the second no stores
// (cluster_tenants.h).
inline constexpr uint32_t kTenantSettingsForm = 3;
inline constexpr uint32_t kStoreTenantSettingsForm = 3;  // The first one with stores.
inline constexpr uint32_t kMinTenantSettingsForm = 1;

// A field of a TierShare.
enum class ShareField : uint8_t { kGuaranteed, kMaximum, kWeight };
inline constexpr std::array kAllShareFields = {ShareField::kGuaranteed, ShareField::kMaximum,
                                               ShareField::kWeight};

// Access of a member to the blocks of a share group. kWrite: it also puts, keeps, advises and
// deletes them.
enum class GroupAccess : uint8_t { kRead = 1, kWrite = 2 };
// Access by the tenant's name.
using GroupMembers = std::map<std::string, GroupAccess>;

struct TenantSettings {
  // Values by tier and field: bytes, and the weight; nullopt: the default.
  using Values =
      std::array<std::array<std::optional<uint64_t>, kAllShareFields.size()>, kTierCount>;
  std::string name;  // 1..63 of [a-zA-Z0-9._-].
  Values values{};
  // Tenants whose workers may use the blocks of this one, which is a share group if it has some.
  GroupMembers members{};

  std::optional<uint64_t>& Of(Tier tier, ShareField field) {
    return values[TierIndex(tier)][static_cast<size_t>(field)];
  }
  const std::optional<uint64_t>& Of(Tier tier, ShareField field) const {
    return values[TierIndex(tier)][static_cast<size_t>(field)];
  }
  // Returns whether all is left to the defaults.
  bool IsDefault() const { return values == Values() && members.empty(); }
  // Errors: kInvalidArgument, naming field and value: the name, a weight beyond 1 to
  // kMaxShareWeight, a guarantee above the maximum, a member whose name is none or the tenant's
  // own, more than kMaxGroupMembers.
  absl::Status Validate() const;
  friend bool operator==(const TenantSettings&, const TenantSettings&) = default;
};
// Settings by the tenant's name.
using TenantSettingsMap = std::map<std::string, TenantSettings>;

// Change to the settings of a tenant; a setting that it does not name stays.
struct TenantChange {
  struct Value {
    Tier tier{};
    ShareField field{};
    std::optional<uint64_t> value;  // nullopt: the default.
  };
  struct Member {
    std::string tenant;
    std::optional<GroupAccess> access;  // nullopt: the tenant is a member no more.
  };
  std::string name;
  std::vector<Value> values;
  std::vector<Member> members{};

  bool IsEmpty() const { return values.empty() && members.empty(); }
  // Returns the settings with the change made. Errors: TenantSettings::Validate()'s.
  absl::StatusOr<TenantSettings> In(TenantSettings settings) const;
};

// Returns "host_guaranteed": the field's name in flags, files and errors.
std::string SettingName(Tier tier, ShareField field);

// Returns OK when that many settings may be kept; else kResourceExhausted, naming the limit that
// `changed` would go beyond: kMaxTenantSettings, kMaxGroupMembers.
absl::Status CheckMayKeep(const TenantSettingsMap& settings, absl::string_view changed);

// Returns OK when the guarantees that `settings` name fit into a tier of `capacity` bytes; else
// kInvalidArgument, naming the tenant, the field, its value and the sum.
absl::Status CheckGuaranteesFit(Tier tier, uint64_t capacity, const TenantSettings& changed,
                                std::span<const TenantSettings> others);

// Returns the share of each tenant in a tier of `capacity` bytes: what its settings say, and an
// equal part of what named guarantees leave, up to its maximum, where no guarantee is named. Named
// guarantees that do not fit together, as those of a cluster may on a small node, are cut in
// proportion. The guarantees returned fit into `capacity`.
std::vector<TierShare> SharesOf(Tier tier, uint64_t capacity,
                                std::span<const TenantSettings> settings);

// Writes settings to a summed file, as kTenantSettingsForm has them.
void PutTenantSettings(const TenantSettingsMap& settings, SummedWriter* to);
// Reads settings of one of the forms, kMinTenantSettingsForm to kTenantSettingsForm; nullopt: they
// contradict themselves.
std::optional<TenantSettingsMap> TakeTenantSettings(uint32_t form, SummedReader* from);

// Reads a file that people write, where a line is a tenant's name and what is said of it:
//
//   acme host_guaranteed=10GiB host_maximum=40GiB disk_weight=3   # to the end: ignored
//   prompts members=acme:write,beta:read
//
// Errors: kInvalidArgument, naming the line, the field and the value.
absl::StatusOr<TenantSettingsMap> ParseTenantSettings(absl::string_view text);
// Returns "read" or "write".
absl::string_view AccessName(GroupAccess access);
// Returns the value of one such field: bytes, or a weight; nullopt: `text` is "default".
absl::StatusOr<std::optional<uint64_t>> ParseSettingValue(ShareField field, absl::string_view text);

}  // namespace kvtier

#endif  // KVTIER_CORE_TENANT_SETTINGS_H_
