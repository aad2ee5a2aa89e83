// PeerKey is what the agents of a tenant share and nobody else has: names and proofs that they send
// each other are made with it (PeerNamer). It is made from the tenant's secret as TenantKey is, and
// neither can be computed from the other: members of a share group get its TenantKey, and still
// cannot fetch its blocks from other nodes, or send blocks of their own making. No message and no
// log has it.
#ifndef KVTIER_CORE_PEER_KEY_H_
#define KVTIER_CORE_PEER_KEY_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "core/sha256.h"

namespace kvtier {

struct PeerKey {
  std::array<uint8_t, 32> bytes{};
  // Returns SHA-256 over a tag and `secret`.
  static PeerKey FromSecret(absl::string_view secret) {
    // Ends in NUL, so that no other tag of the project is its beginning.
    static constexpr char kTag[] = "kvtier.peer-key.v1";
    Sha256 sha;
    sha.Update(kTag, sizeof(kTag));
    sha.Update(secret);
    return {.bytes = sha.Finish()};
  }
  friend bool operator==(const PeerKey&, const PeerKey&) = default;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_PEER_KEY_H_
