// MasterSecret is the key material that an operator mounts on the node and does not keep on the
// disk. Without it nobody can read the disk's payloads.
//
//   <directory>/master            at least 32 random bytes, used unchanged
//   <directory>/master.previous   optional: the content of `master` before a rotation
//
// A mounted Kubernetes secret has this form. Its files are world-readable, and then refused, unless
// defaultMode says otherwise (0400, or 0440 with an fsGroup).
#ifndef KVTIER_TIER_DISK_CIPHER_MASTER_SECRET_H_
#define KVTIER_TIER_DISK_CIPHER_MASTER_SECRET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kvtier {

inline constexpr size_t kMinMasterBytes = 32;    // 256 bits, like the keys made of it.
inline constexpr size_t kMaxMasterBytes = 4096;  // A larger file is a mistake: the wrong file.

// KeyMaterial is the bytes of one file; its destructor wipes them. It is move-only, so that memory
// has one copy.
class KeyMaterial {
 public:
  // Takes the bytes. REQUIRES: kMinMasterBytes to kMaxMasterBytes of them.
  explicit KeyMaterial(std::vector<uint8_t> bytes);
  ~KeyMaterial();
  KeyMaterial(KeyMaterial&&) noexcept = default;
  KeyMaterial& operator=(KeyMaterial&& other) noexcept;
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

struct MasterSecret {
  KeyMaterial current;
  std::optional<KeyMaterial> previous{};

  // Reads both files of one version of the mount, even if the mount is replaced meanwhile. Errors,
  // naming the path: kNotFound, no directory or no `master`; kInvalidArgument, too short, too long,
  // or both equal; kFailedPrecondition, no plain file, or others may read it, or group or others
  // may write it; kUnavailable, any other error of the file system.
  static absl::StatusOr<MasterSecret> Read(const std::string& directory);
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_CIPHER_MASTER_SECRET_H_
