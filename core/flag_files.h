// Files of flags, as --flagfile names them: one flag a line.
#ifndef KVTIER_CORE_FLAG_FILES_H_
#define KVTIER_CORE_FLAG_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kvtier {

// Most files that one command line may read, so that files which name each other come to an end.
inline constexpr int kMaxFlagFiles = 64;

// Returns `words`, the arguments of a program without its name, with the lines of each file in
// place of its --flagfile=FILE[,FILE...] or --flagfile FILE. White space around a line, which
// includes the CR of other systems, is not part of it; empty lines and those that begin with # are
// skipped. A file may name others. Errors: kInvalidArgument, naming the file that cannot be read,
// or the file, the line and the word in it that is no flag.
absl::StatusOr<std::vector<std::string>> WithFlagFiles(const std::vector<std::string>& words);

}  // namespace kvtier

#endif  // KVTIER_CORE_FLAG_FILES_H_
