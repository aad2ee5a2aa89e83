// Outcome is the result of a verb: text for both streams and the exit code.
#ifndef KVTIER_CLI_OUTCOME_H_
#define KVTIER_CLI_OUTCOME_H_

#include <string>

namespace kvtier::cli {

// Part of the contract with scripts: numbers never change their meaning.
enum class ExitCode : int {
  kOk = 0,
  // An answer said no, or some of several did not answer, or not all of it is done: ask again.
  kFailed = 1,
  kUnreachable = 2,  // Nobody answered within --timeout.
  kNotFound = 3,     // Everybody answered, and none has it.
  kDamaged = 4,      // Everybody answered, and damage was found.
  kWrongDoor = 5,    // Nobody answers this at the address asked; the text names the one that does.
  kUsage = 64,       // The command line was wrong; nothing was asked.
};

struct Outcome {
  ExitCode code = ExitCode::kOk;
  std::string out;  // Text for standard output; ends with a line feed, or is empty.
  std::string err;  // Text for standard error; ends with a line feed, or is empty.
};

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_OUTCOME_H_
