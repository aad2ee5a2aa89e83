// The options of `kvtier`, in one table: the parser, the help, the man pages and the completion of
// shells read it.
#ifndef KVTIER_CLI_OPTIONS_H_
#define KVTIER_CLI_OPTIONS_H_

#include <span>

#include "absl/strings/string_view.h"

namespace kvtier::cli {

struct Option {
  absl::string_view name;   // Name with its dashes, such as "--agent".
  absl::string_view value;  // Placeholder of its value: "ADDRESS"; empty: it stands alone.
  absl::string_view help;   // One sentence or two, without a line feed.
  bool repeatable = false;
};

// Returns all options, in the order in which help shows them.
std::span<const Option> AllOptions();
// Returns the option of this name; nullptr: there is none.
const Option* FindOption(absl::string_view name);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_OPTIONS_H_
