// MasterSecret is the key material that an operator mounts beside the disk, and
// keeps elsewhere: without it the disk is noise.
//
//   <directory>/master            at least 32 random bytes, taken as they are
//   <directory>/master.previous   optional: what was in `master` before a rotation
//
// A Kubernetes secret is mounted like that. Its files are world-readable unless
// defaultMode says otherwise (0400, or 0440 with an fsGroup), and are then refused.
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

inline constexpr size_t kMinMasterBytes = 32;    // 256 bits, as the keys made of it.
inline constexpr size_t kMaxMasterBytes = 4096;  // More is a mistake: a wrong file.

// The bytes of one file, wiped when it dies. Move-only: there is one in memory.
class KeyMaterial {
 public:
  // REQUIRES: kMinMasterBytes to kMaxMasterBytes.
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

  // Reads both files of one version of the mount, though it be replaced meanwhile.
  // Errors, naming the path: kNotFound, no directory or no `master`; kInvalidArgument,
  // too short, too long, or both the same; kFailedPrecondition, no plain file, or
  // others may read it, or group or others may write it; kUnavailable, anything else
  // the file system said.
  static absl::StatusOr<MasterSecret> Read(const std::string& directory);
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_CIPHER_MASTER_SECRET_H_
