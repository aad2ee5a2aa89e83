// PeerName stands for a BlockKey, and PeerTag for a tenant, in what a node tells the coordinator
// and other nodes. PeerNamer makes both.
#ifndef KVTIER_CORE_PEER_NAME_H_
#define KVTIER_CORE_PEER_NAME_H_

#include <array>
#include <compare>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kvtier {

struct PeerName {
  uint64_t hi = 0;
  uint64_t lo = 0;
  friend auto operator<=>(const PeerName&, const PeerName&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const PeerName& name) {
    return H::combine(std::move(h), name.lo);  // Either half is as good as random.
  }
  std::array<uint8_t, 16> ToBytes() const;  // Big-endian.
  // Errors: kInvalidArgument unless `bytes` is 16 bytes long.
  static absl::StatusOr<PeerName> FromBytes(absl::string_view bytes);
};

enum class PeerTag : uint64_t {};

}  // namespace kvtier

#endif  // KVTIER_CORE_PEER_NAME_H_
