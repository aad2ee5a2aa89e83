// Small files that must survive a power cut, and the errors of the file system as
// Status. Whole-file and in-place writes return when the bytes are on the device; a
// name is there for good once its directory was synced.
//
// Blocks; any thread.
#ifndef KVTIER_TIER_DISK_IO_DURABLE_FILE_H_
#define KVTIER_TIER_DISK_IO_DURABLE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kvtier {

// "WHAT PATH: the system's words". kResourceExhausted: no space or no descriptors left;
// kUnavailable: anything else.
absl::Status FileError(absl::string_view what, const std::string& path, int error);

// The first `limit` bytes; nullopt: there is no such file. Errors: FileError()'s.
absl::StatusOr<std::optional<std::vector<std::byte>>> ReadFileStart(const std::string& path,
                                                                    size_t limit);
// Makes `directory`/`name` hold exactly these bytes: written to `name`.new, synced,
// renamed, and the directory synced. A crash leaves the old file or the new one, and
// perhaps `name`.new, which the next call overwrites. Errors: FileError()'s.
absl::Status ReplaceFile(const std::string& directory, const std::string& name,
                         std::span<const std::byte> bytes);
// Overwrites a part of an existing file. A crash may leave it torn. Errors: FileError()'s.
absl::Status OverwriteFile(const std::string& path, uint64_t offset,
                           std::span<const std::byte> bytes);
// Makes what was created, renamed and removed in it last. Errors: FileError()'s.
absl::Status SyncDirectory(const std::string& path);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_DURABLE_FILE_H_
