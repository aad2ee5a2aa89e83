#include "core/peer_name.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/byte_order.h"

namespace kvtier {

std::array<uint8_t, 16> PeerName::ToBytes() const {
  std::array<uint8_t, 16> bytes;
  StoreBig(lo, StoreBig(hi, bytes.data()));
  return bytes;
}

absl::StatusOr<PeerName> PeerName::FromBytes(absl::string_view bytes) {
  if (bytes.size() != 16) {
    return absl::InvalidArgumentError(
        absl::StrCat("peer name of ", bytes.size(), " bytes; must be 16"));
  }
  const uint8_t* const data = reinterpret_cast<const uint8_t*>(bytes.data());
  return PeerName{.hi = LoadBig<uint64_t>(data), .lo = LoadBig<uint64_t>(data + 8)};
}

}  // namespace kvtier
