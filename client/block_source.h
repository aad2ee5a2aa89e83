// BlockSource says where an onboarded block was when it was asked for.
#ifndef KVTIER_CLIENT_BLOCK_SOURCE_H_
#define KVTIER_CLIENT_BLOCK_SOURCE_H_

#include <cstddef>
#include <cstdint>

namespace kvtier {

enum class BlockSource : uint8_t { kGpu = 0, kHost = 1, kDisk = 2, kPeer = 3 };
inline constexpr size_t kBlockSourceCount = 4;

// Returns "gpu", "host", "disk" or "peer".
constexpr const char* BlockSourceName(BlockSource source) {
  switch (source) {
    case BlockSource::kGpu:
      return "gpu";
    case BlockSource::kHost:
      return "host";
    case BlockSource::kDisk:
      return "disk";
    case BlockSource::kPeer:
      return "peer";
  }
  return "unknown";
}

}  // namespace kvtier

#endif  // KVTIER_CLIENT_BLOCK_SOURCE_H_
