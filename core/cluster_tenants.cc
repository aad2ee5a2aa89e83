#include "core/cluster_tenants.h"

#include <sys/random.h>

#include <span>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/check.h"
#include "core/checksum.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

constexpr absl::string_view kExportStart = "kvtier-tenants 1";
constexpr absl::string_view kSumStart = "sum=";
constexpr size_t kIdDigits = 16;
constexpr size_t kMaxShownBytes = 64;  // Maximum bytes of outside text in an error.

uint64_t SumOf(absl::string_view bytes) {
  return SumPayload(std::as_bytes(std::span(bytes.data(), bytes.size()))).hi;
}

std::string LineOf(const TenantSettings& one) {
  std::string line = one.name;
  for (const Tier tier : kAllTiers) {
    for (const ShareField field : kAllShareFields) {
      const std::optional<uint64_t>& value = one.Of(tier, field);
      if (value.has_value()) absl::StrAppend(&line, " ", SettingName(tier, field), "=", *value);
    }
  }
  std::vector<std::string> members;
  for (const auto& [tenant, access] : one.members) {
    members.push_back(absl::StrCat(tenant, ":", AccessName(access)));
  }
  if (!members.empty()) absl::StrAppend(&line, " members=", absl::StrJoin(members, ","));
  return line;
}

// Reads the first line into all but the settings.
absl::StatusOr<ClusterTenants> ParseStart(absl::string_view line) {
  const absl::string_view all = line;
  ClusterTenants tenants;
  if (!absl::ConsumePrefix(&line, kExportStart)) {
    return absl::InvalidArgumentError(absl::StrCat("line 1 is '", all.substr(0, kMaxShownBytes),
                                                   "'; must begin with ", kExportStart,
                                                   ", as kvtier tenants export prints it"));
  }
  for (const absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(word, absl::MaxSplits('=', 1));
    if (parts.first == "store") {
      KVT_ASSIGN_OR_RETURN(tenants.store, ParseStoreId(parts.second));
    } else if (parts.first == "replaced") {
      KVT_ASSIGN_OR_RETURN(const uint64_t store, ParseStoreId(parts.second));
      KVT_RETURN_IF_ERROR(CheckMayReplace(tenants.replaced));
      tenants.replaced.insert(store);
    } else if (parts.first != "version" || !absl::SimpleAtoi(parts.second, &tenants.version)) {
      return absl::InvalidArgumentError(absl::StrCat("line 1 has '", word.substr(0, kMaxShownBytes),
                                                     "'; must be version, store or replaced"));
    }
  }
  if (tenants.version == 0 || tenants.version > kMaxSettingsVersion) {
    return absl::InvalidArgumentError(absl::StrCat("line 1: version is ", tenants.version,
                                                   "; must be 1 to ", kMaxSettingsVersion));
  }
  return tenants;
}

}  // namespace

SettingsStamp ClusterTenants::Stamp() const {
  SummedWriter out;
  PutTenantSettings(settings, &out);
  return {.store = store, .version = version, .sum = SumOf(std::move(out).End())};
}

bool Takes(const SettingsStamp& followed, const SettingsStamp& offered,
           const std::set<uint64_t>& replaced) {
  if (offered.store == 0 || offered.version == 0) return false;
  if (followed.version == 0) return true;
  if (followed.store == 0) return offered.version >= followed.version;
  if (followed.store != offered.store) return replaced.contains(followed.store);
  if (offered.version == followed.version) return offered.sum != followed.sum;
  return offered.version > followed.version;
}

uint64_t DrawStoreId() {
  uint64_t id = 0;
  while (id == 0) KVT_CHECK(getrandom(&id, sizeof(id), 0) == sizeof(id));
  return id;
}

std::string StoreIdText(uint64_t store) { return absl::StrFormat("%016x", store); }

absl::StatusOr<uint64_t> ParseStoreId(absl::string_view text) {
  uint64_t store = 0;
  const bool digits = text.find_first_not_of("0123456789abcdefABCDEF") == absl::string_view::npos;
  if (text.size() == kIdDigits && digits && absl::SimpleHexAtoi(text, &store) && store != 0) {
    return store;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text.substr(0, kMaxShownBytes),
                   "' is no id of a store of settings; must be 16 hexadecimal digits, not all 0"));
}

absl::Status CheckMayReplace(const std::set<uint64_t>& replaced) {
  if (replaced.size() < kMaxReplacedStores) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("these settings replace those of ", replaced.size(),
                   " other stores already, the most that may be; on nodes of one more remove "
                   "the file tenant_settings"));
}

void PutClusterTenants(const ClusterTenants& tenants, SummedWriter* to) {
  to->Put(tenants.store);
  to->Put(tenants.version);
  to->Put(static_cast<uint32_t>(tenants.replaced.size()));
  for (const uint64_t store : tenants.replaced) to->Put(store);
  PutTenantSettings(tenants.settings, to);
}

std::optional<ClusterTenants> TakeClusterTenants(SummedReader* from) {
  const auto store = from->Take<uint64_t>();
  const auto version = from->Take<uint64_t>();
  const auto replaced = from->Take<uint32_t>();
  if (!store.has_value() || !version.has_value() || !replaced.has_value() ||
      *replaced > kMaxReplacedStores) {
    return std::nullopt;
  }
  ClusterTenants tenants{.store = *store, .version = *version};
  for (uint32_t i = 0; i < *replaced; ++i) {
    const auto other = from->Take<uint64_t>();
    if (!other.has_value()) return std::nullopt;
    tenants.replaced.insert(*other);
  }
  std::optional<TenantSettingsMap> settings = TakeTenantSettings(kTenantSettingsForm, from);
  if (!settings.has_value()) return std::nullopt;
  tenants.settings = *std::move(settings);
  return tenants;
}

std::string ExportText(const ClusterTenants& tenants) {
  std::string text = absl::StrCat(kExportStart, " version=", tenants.version);
  if (tenants.store != 0) absl::StrAppend(&text, " store=", StoreIdText(tenants.store));
  for (const uint64_t store : tenants.replaced) {
    absl::StrAppend(&text, " replaced=", StoreIdText(store));
  }
  text += "\n";
  for (const auto& [name, one] : tenants.settings) absl::StrAppend(&text, LineOf(one), "\n");
  const uint64_t sum = SumOf(text);
  absl::StrAppend(&text, kSumStart, absl::StrFormat("%016x", sum), "\n");
  return text;
}

absl::StatusOr<ClusterTenants> ParseExport(absl::string_view text) {
  const size_t first_end = text.find('\n');
  KVT_ASSIGN_OR_RETURN(ClusterTenants tenants, ParseStart(text.substr(0, first_end)));
  const size_t last = absl::StripSuffix(text, "\n").rfind('\n') + 1;
  absl::string_view sum = text.substr(last);
  uint64_t told = 0;
  if (!absl::ConsumePrefix(&sum, kSumStart) || !absl::ConsumeSuffix(&sum, "\n") ||
      !absl::SimpleHexAtoi(sum, &told) || told != SumOf(text.substr(0, last))) {
    return absl::InvalidArgumentError(
        "the last line is no sum of those before it, so the text was cut off or changed; must be "
        "what kvtier tenants export printed");
  }
  // The first line stays, as a comment, so that errors name the right lines.
  const std::string lines = absl::StrCat("#", text.substr(0, last));
  KVT_ASSIGN_OR_RETURN(tenants.settings, ParseTenantSettings(lines));
  return tenants;
}

}  // namespace kvtier
