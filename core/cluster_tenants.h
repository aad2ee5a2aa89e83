// ClusterTenants are the settings of tenants that hold on all nodes of a cluster. A coordinator
// keeps them in its store; nodes follow them. A store has an id, drawn at random when an operator
// begins it, and a version that counts its changes, so that a node tells a later state of the
// settings that it follows from an older one, and from those of another store.
//
// Pure but for the drawing of ids; any thread.
#ifndef KVTIER_CORE_CLUSTER_TENANTS_H_
#define KVTIER_CORE_CLUSTER_TENANTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/summed_bytes.h"
#include "core/tenant_settings.h"

namespace kvtier {

// Latest version that settings may come with from elsewhere, so that changes have room above it.
inline constexpr uint64_t kMaxSettingsVersion = uint64_t{1} << 62;
// Stores that one store may replace.
inline constexpr size_t kMaxReplacedStores = 64;

// SettingsStamp tells the settings of two programs apart without a look at them.
struct SettingsStamp {
  uint64_t store = 0;    // Id of the store; 0: an older build's settings, which have none.
  uint64_t version = 0;  // Version, from 1 on; 0: no settings are known.
  uint64_t sum = 0;      // Checksum of the settings.
  friend bool operator==(const SettingsStamp&, const SettingsStamp&) = default;
};

struct ClusterTenants {
  uint64_t store = 0;  // As in SettingsStamp, as is the next one.
  uint64_t version = 0;
  // Stores in whose place this one has come, as an operator said. Nodes that follow one of these
  // change over.
  std::set<uint64_t> replaced{};
  TenantSettingsMap settings{};

  SettingsStamp Stamp() const;
  friend bool operator==(const ClusterTenants&, const ClusterTenants&) = default;
};

// Returns whether a node that follows the settings with the stamp `followed` takes `offered`, whose
// store has come in place of `replaced`. It does if it knows no settings; if `offered` are of the
// same store and later, or of the same version and different, as after an import; and if their
// store replaces the one that it follows. Settings of an older build, which have no store, give way
// to those of any store that are not older. Everything else would lose settings that nobody gave
// up.
bool Takes(const SettingsStamp& followed, const SettingsStamp& offered,
           const std::set<uint64_t>& replaced);

// Draws an id for a new store; never 0.
uint64_t DrawStoreId();
// Returns the id as people see it: 16 hexadecimal digits.
std::string StoreIdText(uint64_t store);
// Reads such an id. Errors: kInvalidArgument.
absl::StatusOr<uint64_t> ParseStoreId(absl::string_view text);

// Returns OK if one more store may be replaced; else kResourceExhausted, naming the limit.
absl::Status CheckMayReplace(const std::set<uint64_t>& replaced);

// Writes to a summed file, in kTenantSettingsForm.
void PutClusterTenants(const ClusterTenants& tenants, SummedWriter* to);
// Reads what PutClusterTenants() wrote; nullopt: it contradicts itself.
std::optional<ClusterTenants> TakeClusterTenants(SummedReader* from);

// Returns the text of an export, which people can read and ParseExport() reads again:
//
//   kvtier-tenants 1 version=7 store=00112233445566ff replaced=...
//   acme host_guaranteed=10737418240 members=beta:read
//   sum=0123456789abcdef
std::string ExportText(const ClusterTenants& tenants);
// Errors: kInvalidArgument, naming the line: the text is no export, was cut off or changed.
absl::StatusOr<ClusterTenants> ParseExport(absl::string_view text);

}  // namespace kvtier

#endif  // KVTIER_CORE_CLUSTER_TENANTS_H_
