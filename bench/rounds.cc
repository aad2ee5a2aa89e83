#include "bench/rounds.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kvtier::bench {

bool AbslParseFlag(absl::string_view text, Rounds* rounds, std::string* error) {
  if (absl::SimpleAtoi(text, &rounds->count) && rounds->count > 0) return true;
  *error = "not a number of rounds, 1 or more";
  return false;
}

std::string AbslUnparseFlag(Rounds rounds) { return absl::StrCat(rounds.count); }

}  // namespace kvtier::bench
