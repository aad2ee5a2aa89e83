// SessionKey proves a tenant on the descriptor socket. It is made from the tenant's secret as
// TenantKey is, and neither can be computed from the other: members of a share group get its
// TenantKey, to name its blocks, and still cannot prove that they are the group.
#ifndef KVTIER_CORE_SESSION_KEY_H_
#define KVTIER_CORE_SESSION_KEY_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "core/sha256.h"

namespace kvtier {

struct SessionKey {
  std::array<uint8_t, 32> bytes{};
  // Returns SHA-256 over a tag and `secret`.
  static SessionKey FromSecret(absl::string_view secret) {
    // Ends in NUL, so that no other tag of the project is its beginning.
    static constexpr char kTag[] = "kvtier.session-key.v1";
    Sha256 sha;
    sha.Update(kTag, sizeof(kTag));
    sha.Update(secret);
    return {.bytes = sha.Finish()};
  }
  friend bool operator==(const SessionKey&, const SessionKey&) = default;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_SESSION_KEY_H_
