// Conversations remembers the last block that each conversation brought. So an order of eviction
// sees when a conversation goes on from an earlier block: the blocks after that one are left
// behind.
//
// The table has kMaxConversations places, one for each hash; a conversation takes the place of
// another one with the same hash, which costs a hit at most.
//
// Executor thread only. Memory: nothing before the first conversation, 400 KB from then on.
#ifndef KVTIER_CORE_CONVERSATIONS_H_
#define KVTIER_CORE_CONVERSATIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/block_key.h"

namespace kvtier {

inline constexpr size_t kMaxConversations = 16'384;

class Conversations {
 public:
  // Remembers `key` as the last block of the conversation and returns the one before it; nullopt:
  // none is known. REQUIRES: `conversation` is not 0.
  std::optional<BlockKey> GoOn(uint64_t conversation, const BlockKey& key);

 private:
  struct Last {
    uint64_t conversation = 0;
    BlockKey key;
  };
  std::vector<Last> last_;  // Places by hash.
};

}  // namespace kvtier

#endif  // KVTIER_CORE_CONVERSATIONS_H_
