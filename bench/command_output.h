// Runs a reference program and finds a number in the JSON it prints.
#ifndef KVTIER_BENCH_COMMAND_OUTPUT_H_
#define KVTIER_BENCH_COMMAND_OUTPUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace kvtier::bench {

// What exec takes: pointers into `words`, and a null.
std::vector<char*> ArgumentsOf(std::vector<std::string>* words);

// Runs the program found in PATH and returns what it wrote to stdout. Errors:
// kNotFound, it is not installed; kUnavailable, it failed, with what it wrote;
// kDeadlineExceeded, it wrote on for `timeout`, and was killed.
absl::StatusOr<std::string> OutputOf(std::vector<std::string> words, absl::Duration timeout);

// The number of the first `field` behind the first `object` in `json`. Errors:
// kUnavailable, naming what is missing.
absl::StatusOr<double> JsonNumber(absl::string_view json, absl::string_view object,
                                  absl::string_view field);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_COMMAND_OUTPUT_H_
