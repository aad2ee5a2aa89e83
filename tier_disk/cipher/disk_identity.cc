#include "tier_disk/cipher/disk_identity.h"

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace kvtier {

std::string DiskId::ToHex() const {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace kvtier
