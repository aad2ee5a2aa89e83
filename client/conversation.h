// ConversationOf() hashes an engine's id of a session or conversation, so that the id itself never
// leaves the worker.
//
// Stateless: thread-safe.
#ifndef KVTIER_CLIENT_CONVERSATION_H_
#define KVTIER_CLIENT_CONVERSATION_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kvtier {

inline constexpr size_t kMaxConversationBytes = 256;

// Returns ReuseHint::conversation for the id, the same in every worker: the first 8 bytes of
// SHA-256("kvtier.conversation.v1" || id), big-endian, or 1 where these are 0. Errors:
// kInvalidArgument, the id is empty or longer than kMaxConversationBytes.
absl::StatusOr<uint64_t> ConversationOf(absl::string_view id);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_CONVERSATION_H_
