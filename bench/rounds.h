// The flag that benchmarks share: how often ours and the reference take turns.
#ifndef KVTIER_BENCH_ROUNDS_H_
#define KVTIER_BENCH_ROUNDS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace kvtier::bench {

// The medians of so many rounds count.
struct Rounds {
  int count = 0;  // 1 or more.
};

bool AbslParseFlag(absl::string_view text, Rounds* rounds, std::string* error);
std::string AbslUnparseFlag(Rounds rounds);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_ROUNDS_H_
