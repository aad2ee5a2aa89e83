// Progress shows on stderr how much of a long piece of work is done, in one line that disappears at
// its end. It prints nothing if stderr is no terminal.
#ifndef KVTIER_BENCH_PROGRESS_H_
#define KVTIER_BENCH_PROGRESS_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace kvtier::bench {

class Progress {
 public:
  // Begins the work. `steps` is the number of calls of Step() to come.
  Progress(absl::string_view work, size_t steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows that the next step begins.
  void Step(absl::string_view step);

 private:
  const std::string work_;
  const size_t steps_;
  const bool is_shown_;
  size_t begun_ = 0;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_PROGRESS_H_
