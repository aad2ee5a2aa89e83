#include "tier_disk/cipher/tenant_keys.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/byte_order.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "tier_disk/cipher/hkdf.h"

namespace kvtier {
namespace {

// Tags include their final NUL, so that none is a prefix of another. Changing the bytes that follow
// one requires a new version.
constexpr char kTenantTag[] = "kvtier.disk.tenant.v1";
constexpr char kKeyIdTag[] = "kvtier.disk.key-id.v1";
constexpr char kCheckTag[] = "kvtier.disk.check.v1";

template <size_t kSize>
absl::string_view Octets(const std::array<uint8_t, kSize>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const uint8_t> Octets(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Layout: disk:16 incarnation:16.
std::string TextOf(const DiskIdentity& disk) {
  return absl::StrCat(Octets(disk.disk.bytes), Octets(disk.incarnation.bytes));
}

// Layout: tag disk:16 incarnation:16 name. The name is last and the rest has a fixed size, so no
// two tenants or disks have the same info.
template <size_t kSize>
std::string InfoOf(const char (&tag)[kSize], const DiskIdentity& disk, absl::string_view name) {
  return absl::StrCat(absl::string_view(tag, kSize), TextOf(disk), name);
}

uint64_t ExpandNumber(const SecretKey& key, const std::string& info) {
  std::array<uint8_t, 8> bytes;
  HkdfExpand(key, Octets(info), bytes);
  return LoadBig<uint64_t>(bytes.data());
}

absl::Status NoSuchTenant(absl::string_view tenant) {
  return absl::NotFoundError(absl::StrCat("tenant '", tenant, "' has no key on this disk"));
}

absl::Status NoSuchKey(KeyId key_id) {
  return absl::NotFoundError(
      absl::StrCat("no tenant on this disk has the key ",
                   absl::Hex(static_cast<uint64_t>(key_id), absl::kZeroPad16)));
}

}  // namespace

uint64_t KeyCheckOf(const KeyMaterial& material, const DiskIdentity& disk) {
  KVT_CHECK(disk.disk != DiskId{} && disk.incarnation != IncarnationId{});
  // The salt is the disk's identity, so no tenant's key id equals the check. Equal secrets on two
  // disks do not show, and an attacker who guesses a secret from the check has to start again for
  // each disk.
  const std::string salt = TextOf(disk);
  const SecretKey key = HkdfExtract(Octets(salt), material.bytes());
  return ExpandNumber(key, std::string(kCheckTag, sizeof(kCheckTag)));
}

absl::StatusOr<Master> MasterOf(uint64_t key_check, const MasterSecret& secret,
                                const DiskIdentity& disk) {
  const uint64_t current = KeyCheckOf(secret.current, disk);
  if (key_check == current) return Master::kCurrent;
  if (secret.previous && key_check == KeyCheckOf(*secret.previous, disk)) return Master::kPrevious;
  return absl::FailedPreconditionError(absl::StrCat(
      "the disk was made with the secret of key check ", absl::Hex(key_check, absl::kZeroPad16),
      ", and the mounted secret has key check ", absl::Hex(current, absl::kZeroPad16),
      secret.previous ? "; the previous one does not match either" : ""));
}

TenantKeys::TenantKeys(std::shared_ptr<const MasterSecret> secret, const DiskIdentity& disk,
                       const OpeningId& opening)
    : secret_(std::move(secret)), disk_(disk), opening_(opening) {
  KVT_CHECK(secret_ != nullptr);
  KVT_CHECK(disk.disk != DiskId{} && disk.incarnation != IncarnationId{});
  KVT_CHECK(opening != OpeningId{});
}

RecordCipher TenantKeys::MakeCipher(const KeyMaterial& material, const TenantSalt& salt) const {
  const SecretKey extracted = HkdfExtract(salt.salt.bytes(), material.bytes());
  SecretKey key;
  const std::string info = InfoOf(kTenantTag, disk_, salt.tenant);
  HkdfExpand(extracted, Octets(info), key.bytes());
  const KeyId key_id{ExpandNumber(extracted, InfoOf(kKeyIdTag, disk_, salt.tenant))};
  return {key, key_id, opening_};
}

absl::Status TenantKeys::Add(const TenantSalt& salt) {
  KVT_RETURN_IF_ERROR(ValidateTenantName(salt.tenant));
  if (tenants_.contains(salt.tenant)) {
    return absl::AlreadyExistsError(
        absl::StrCat("tenant '", salt.tenant, "' has a salt on this disk already"));
  }
  if (tenants_.size() >= kMaxDiskTenants) {
    return absl::ResourceExhaustedError(
        absl::StrCat("tenant '", salt.tenant, "' gets no key: ", kMaxDiskTenants,
                     " tenants are on this disk, the most that may be; erase one"));
  }
  Tenant tenant{.current = MakeCipher(secret_->current, salt)};
  if (secret_->previous) tenant.previous = MakeCipher(*secret_->previous, salt);
  std::vector<KeyId> ids = {tenant.current.key_id()};
  if (tenant.previous) ids.push_back(tenant.previous->key_id());
  // Records under two keys with one id could not be told apart. The chance is one in 2^50 at 4096
  // tenants. Zero is the id of records that are not sealed.
  const bool taken = std::any_of(ids.begin(), ids.end(), [&](KeyId id) {
    return id == KeyId{} || owners_.contains(id) || std::count(ids.begin(), ids.end(), id) > 1;
  });
  if (taken) {
    return absl::AlreadyExistsError(
        absl::StrCat("tenant '", salt.tenant,
                     "': its salt gives a key id that is another's; make another salt"));
  }
  for (const KeyId id : ids) owners_.emplace(id, salt.tenant);
  tenants_.emplace(salt.tenant, std::move(tenant));
  return absl::OkStatus();
}

absl::Status TenantKeys::Destroy(absl::string_view tenant) {
  const auto found = tenants_.find(tenant);
  if (found == tenants_.end()) return NoSuchTenant(tenant);
  owners_.erase(found->second.current.key_id());
  if (found->second.previous) owners_.erase(found->second.previous->key_id());
  tenants_.erase(found);  // The destructors wipe the keys.
  return absl::OkStatus();
}

absl::StatusOr<RecordCipher> TenantKeys::CipherToSeal(absl::string_view tenant) const {
  const auto found = tenants_.find(tenant);
  if (found == tenants_.end()) return NoSuchTenant(tenant);
  return found->second.current;
}

absl::StatusOr<RecordCipher> TenantKeys::CipherToOpen(KeyId key_id) const {
  const auto owner = owners_.find(key_id);
  if (owner == owners_.end()) return NoSuchKey(key_id);
  const Tenant& tenant = tenants_.at(owner->second);
  return tenant.current.key_id() == key_id ? tenant.current : *tenant.previous;
}

absl::StatusOr<RecordCipher> TenantKeys::CipherToSealAgain(KeyId key_id) const {
  const auto owner = owners_.find(key_id);
  if (owner == owners_.end()) return NoSuchKey(key_id);
  return tenants_.at(owner->second).current;
}

std::vector<KeyId> TenantKeys::IdsOf(absl::string_view tenant) const {
  const auto found = tenants_.find(tenant);
  if (found == tenants_.end()) return {};
  std::vector<KeyId> ids = {found->second.current.key_id()};
  if (found->second.previous) ids.push_back(found->second.previous->key_id());
  return ids;
}

void TenantKeys::Audit() const {
  size_t ids = 0;
  for (const auto& [name, tenant] : tenants_) {
    KVT_CHECK(tenant.previous.has_value() == secret_->previous.has_value());
    KVT_CHECK(owners_.at(tenant.current.key_id()) == name);
    if (tenant.previous) KVT_CHECK(owners_.at(tenant.previous->key_id()) == name);
    ids += tenant.previous ? 2 : 1;
  }
  KVT_CHECK(ids == owners_.size() && tenants_.size() <= kMaxDiskTenants);
}

}  // namespace kvtier
