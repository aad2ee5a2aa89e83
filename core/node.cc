#include "core/node.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace kvtier {

absl::StatusOr<NodeId> NodeId::FromString(absl::string_view text) {
  const auto alphanumeric = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c));
  };
  const auto allowed = [&](char c) { return alphanumeric(c) || c == '.' || c == '_' || c == '-'; };
  if (text.empty() || text.size() > kMaxNodeIdBytes || !alphanumeric(text.front()) ||
      !std::all_of(text.begin(), text.end(), allowed)) {
    // The text comes from outside, so it is escaped and cut.
    return absl::InvalidArgumentError(
        absl::StrCat("node id \"", absl::CHexEscape(text.substr(0, kMaxNodeIdBytes + 1)), "\" of ",
                     text.size(), " bytes; must be 1 to ", kMaxNodeIdBytes,
                     " of [a-zA-Z0-9._-], starting with a letter or digit"));
  }
  return NodeId(std::string(text));
}

}  // namespace kvtier
