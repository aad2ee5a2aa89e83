#include "client/conversation.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/byte_order.h"
#include "core/sha256.h"

namespace kvtier {

absl::StatusOr<uint64_t> ConversationOf(absl::string_view id) {
  if (id.empty() || id.size() > kMaxConversationBytes) {
    return absl::InvalidArgumentError(absl::StrCat("conversation has ", id.size(),
                                                   " bytes; must be 1 to ", kMaxConversationBytes));
  }
  Sha256 hash;
  hash.Update("kvtier.conversation.v1");
  hash.Update(id);
  return std::max<uint64_t>(LoadBig<uint64_t>(hash.Finish().data()), 1);
}

}  // namespace kvtier
