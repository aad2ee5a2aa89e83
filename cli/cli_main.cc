// kvtier, the admin CLI.
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/command.h"
#include "cli/outcome.h"

namespace {

// StderrProgress prints progress. On a terminal each line replaces the one before; in a log it
// prints one line every ten seconds.
class StderrProgress {
 public:
  void operator()(const std::string& line) {
    const absl::Time now = absl::Now();
    if (!terminal_ && now - shown_ < absl::Seconds(10)) return;
    shown_ = now;
    std::fprintf(stderr, terminal_ ? "\r%s\033[K" : "%s\n", line.c_str());
    std::fflush(stderr);
    drawn_ = terminal_;
  }
  void End() {
    if (drawn_) std::fputs("\r\033[K", stderr);
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  absl::Time shown_ = absl::Now();
  bool drawn_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  StderrProgress progress;
  const kvtier::cli::Outcome outcome = kvtier::cli::RunCommand(words, std::ref(progress));
  progress.End();
  std::fputs(outcome.err.c_str(), stderr);
  // A failed write is an error: a script would take the incomplete output for the answer.
  if (std::fputs(outcome.out.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    std::perror("kvtier: standard output");
    return static_cast<int>(kvtier::cli::ExitCode::kFailed);
  }
  return static_cast<int>(outcome.code);
}
