#include "tier_disk/cipher/tenant_salt.h"

#include <bit>
#include <cstring>
#include <span>
#include <type_traits>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/checksum.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie");

// Changing any field requires a new kTenantSaltVersion.
struct SaltLayout {
  uint8_t version;
  uint8_t zero[7];
  uint8_t salt[SecretKey::kBytes];
  uint64_t check;  // Covers the row key and all of the above.
};
static_assert(std::is_trivially_copyable_v<SaltLayout>);
static_assert(sizeof(SaltLayout) == 48);
static_assert(offsetof(SaltLayout, salt) == 8);
static_assert(offsetof(SaltLayout, check) == 40);

// The check of a value that was copied to another row does not match, as in manifest_value.cc.
uint64_t Check(absl::string_view row_key, const SaltLayout& layout) {
  std::string bytes = absl::StrCat(
      row_key,
      absl::string_view(reinterpret_cast<const char*>(&layout), offsetof(SaltLayout, check)));
  const uint64_t check = SumPayload(std::as_bytes(std::span(bytes))).lo;
  Wipe({reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  return check;
}

void WipeLayout(SaltLayout* layout) { Wipe({reinterpret_cast<uint8_t*>(layout), sizeof(*layout)}); }

absl::StatusOr<TenantSalt> Parse(absl::string_view row_key, const SaltLayout& layout) {
  if (layout.check != Check(row_key, layout)) {
    return absl::DataLossError("tenant salt fails its checksum");
  }
  if (layout.version != kTenantSaltVersion) {
    return absl::DataLossError(absl::StrCat("tenant salt has version ", layout.version,
                                            ", expected ", kTenantSaltVersion));
  }
  return TenantSalt{.tenant = std::string(row_key.substr(1)), .salt = SecretKey(layout.salt)};
}

}  // namespace

absl::Status ValidateTenantName(absl::string_view name) {
  if (!name.empty() && name.size() <= kMaxTenantNameBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tenant name \"", absl::CHexEscape(name.substr(0, 64)), "\" of ", name.size(),
                   " bytes; must be 1 to ", kMaxTenantNameBytes));
}

TenantSalt DrawTenantSalt(absl::string_view tenant) {
  TenantSalt salt{.tenant = std::string(tenant)};
  FillRandom(salt.salt.bytes());
  return salt;
}

std::string TenantSaltRowKey(absl::string_view tenant) {
  return absl::StrCat(kTenantRowPrefix, tenant);
}

std::string EncodeTenantSalt(const TenantSalt& salt) {
  SaltLayout layout{.version = kTenantSaltVersion};
  std::memcpy(layout.salt, salt.salt.bytes().data(), sizeof(layout.salt));
  layout.check = Check(TenantSaltRowKey(salt.tenant), layout);
  std::string value(reinterpret_cast<const char*>(&layout), sizeof(layout));
  WipeLayout(&layout);
  return value;
}

absl::StatusOr<TenantSalt> DecodeTenantSalt(absl::string_view row_key, absl::string_view value) {
  if (!absl::StartsWith(row_key, kTenantRowPrefix) || !ValidateTenantName(row_key.substr(1)).ok()) {
    return absl::DataLossError(
        absl::StrCat("manifest row key of ", row_key.size(), " bytes names no tenant"));
  }
  if (value.size() != sizeof(SaltLayout)) {
    return absl::DataLossError(
        absl::StrCat("tenant salt has ", value.size(), " bytes, expected ", sizeof(SaltLayout)));
  }
  SaltLayout layout;
  std::memcpy(&layout, value.data(), sizeof(layout));
  absl::StatusOr<TenantSalt> salt = Parse(row_key, layout);
  WipeLayout(&layout);
  return salt;
}

}  // namespace kvtier
