// kvtier, the admin CLI.
#include <cstdio>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/outcome.h"

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const kvtier::cli::Outcome outcome = kvtier::cli::RunCommand(words);
  std::fputs(outcome.err.c_str(), stderr);
  // What a script did not get, it must not take for an answer.
  if (std::fputs(outcome.out.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    std::perror("kvtier: standard output");
    return static_cast<int>(kvtier::cli::ExitCode::kFailed);
  }
  return static_cast<int>(outcome.code);
}
