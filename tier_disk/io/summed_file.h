// Reads and writes a small file of the node that must survive a power cut, and is replaced as a
// whole: magic:8 version:4, its content, and the sum of all that (core/summed_bytes.h).
//
// Blocks; any thread.
#ifndef KVTIER_TIER_DISK_IO_SUMMED_FILE_H_
#define KVTIER_TIER_DISK_IO_SUMMED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/summed_bytes.h"

namespace kvtier {

struct SummedFileForm {
  const char* name;   // Name of the file in its directory.
  const char* holds;  // Name of the content for errors, such as "lessons".
  uint64_t magic;
  uint32_t version;
  size_t max_bytes;                // Size of the longest file that is read.
  uint32_t min_version = version;  // Oldest version that is read.
};

// Returns all bytes of the file; empty: there is none. Errors: FileError()'s; kDataLoss, it is
// empty or too long.
absl::StatusOr<std::string> ReadSummedFile(const std::string& directory,
                                           const SummedFileForm& form);
struct OpenedSummedFile {
  SummedReader in;   // Reader positioned after the version. Does not own the bytes.
  uint32_t version;  // Version of the file.
};
// Returns a reader positioned after the version. Errors, naming the file: kDataLoss, it is damaged
// or of another form; kFailedPrecondition, the version is outside min_version..version.
absl::StatusOr<OpenedSummedFile> OpenSummedFile(const std::string& directory,
                                                const SummedFileForm& form,
                                                absl::string_view bytes);
// Returns a writer of such a file, positioned after the version.
SummedWriter BeginSummedFile(const SummedFileForm& form);
// Calls ReplaceFile() with the content of the writer.
absl::Status ReplaceSummedFile(const std::string& directory, const SummedFileForm& form,
                               SummedWriter content);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_SUMMED_FILE_H_
