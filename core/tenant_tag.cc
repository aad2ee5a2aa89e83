#include "core/tenant_tag.h"

#include <openssl/evp.h>

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/byte_order.h"
#include "core/check.h"

namespace kvtier {

TenantTag TenantTagOf(absl::string_view name) {
  // The NUL after the domain tag keeps it from being the beginning of another tag.
  constexpr char kOwnerTag[] = "kvtier.owner.v1";
  const std::string text = absl::StrCat(absl::string_view(kOwnerTag, sizeof(kOwnerTag)), name);
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  KVT_CHECK(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1);
  return TenantTag{LoadBig<uint64_t>(digest.data())};
}

}  // namespace kvtier
