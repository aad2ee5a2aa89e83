// Defines the flag that benchmarks share: how often ours and the reference alternate.
#ifndef KVTIER_BENCH_ROUNDS_H_
#define KVTIER_BENCH_ROUNDS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace kvtier::bench {

// Number of rounds whose medians count.
struct Rounds {
  int count = 0;  // Number of rounds, at least 1.
};

bool AbslParseFlag(absl::string_view text, Rounds* rounds, std::string* error);
std::string AbslUnparseFlag(Rounds rounds);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_ROUNDS_H_
