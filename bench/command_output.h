// Runs a reference program and finds a number in the JSON that it prints.
#ifndef KVTIER_BENCH_COMMAND_OUTPUT_H_
#define KVTIER_BENCH_COMMAND_OUTPUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace kvtier::bench {

// Returns the arguments of exec: pointers into `words`, and a null.
std::vector<char*> ArgumentsOf(std::vector<std::string>* words);

// Runs the program found in PATH and returns its stdout. Errors: kNotFound, it is not installed;
// kUnavailable, it failed, with its output; kDeadlineExceeded, it did not end within `timeout`, and
// was killed.
absl::StatusOr<std::string> OutputOf(std::vector<std::string> words, absl::Duration timeout);

// Returns the number of the first `field` after the first `object` in `json`. Errors: kUnavailable,
// naming what is missing.
absl::StatusOr<double> JsonNumber(absl::string_view json, absl::string_view object,
                                  absl::string_view field);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_COMMAND_OUTPUT_H_
