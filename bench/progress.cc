#include "bench/progress.h"

#include <unistd.h>

#include <cstdio>

namespace kvtier::bench {
namespace {

// Moves to the start of the terminal's line and clears it.
constexpr char kClearLine[] = "\r\033[K";

}  // namespace

Progress::Progress(absl::string_view work, size_t steps)
    : work_(work), steps_(steps), is_shown_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (is_shown_) std::fputs(kClearLine, stderr);
}

void Progress::Step(absl::string_view step) {
  ++begun_;
  if (!is_shown_) return;
  std::fprintf(stderr, "%s%s: %zu of %zu, %s", kClearLine, work_.c_str(), begun_, steps_,
               std::string(step).c_str());
  std::fflush(stderr);
}

}  // namespace kvtier::bench
