#include "core/conversations.h"

#include <utility>

namespace kvtier {

std::optional<BlockKey> Conversations::GoOn(uint64_t conversation, const BlockKey& key) {
  if (last_.empty()) last_.resize(kMaxConversations);
  Last& place = last_[conversation % kMaxConversations];
  const Last before = std::exchange(place, {.conversation = conversation, .key = key});
  if (before.conversation != conversation) return std::nullopt;
  return before.key;
}

}  // namespace kvtier
