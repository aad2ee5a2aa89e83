// StoredKeys() says of each key of a Reserve whether its block is in host memory.
#ifndef KVTIER_CLIENT_STORED_KEYS_H_
#define KVTIER_CLIENT_STORED_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/reserved_blocks.h"

namespace kvtier {

// ReservedFate says whether the blocks that were reserved were published.
enum class ReservedFate : uint8_t { kNotPublished, kPublished };

// Returns which blocks are in host memory: those that were there before, and the reserved ones as
// their fate says.
inline std::vector<bool> StoredKeys(const ReservedBlocks& blocks, ReservedFate reserved) {
  std::vector<bool> stored(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    const ReservedBlocks::State state = blocks.state(i);
    stored[i] = state == ReservedBlocks::State::kPresent ||
                (state == ReservedBlocks::State::kReserved && reserved == ReservedFate::kPublished);
  }
  return stored;
}

}  // namespace kvtier

#endif  // KVTIER_CLIENT_STORED_KEYS_H_
