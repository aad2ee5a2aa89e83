// Reads and writes small files that must survive a power cut, and converts errors of the file
// system to Status. Whole-file and in-place writes return when the bytes are on the device; a name
// is durable once its directory was synced.
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

// Returns "WHAT PATH: the system's text" as a status: kResourceExhausted, no space or no
// descriptors left; kUnavailable, anything else.
absl::Status FileError(absl::string_view what, const std::string& path, int error);

// Returns the first `limit` bytes; nullopt: there is no such file. Errors: FileError()'s;
// kUnavailable: it is no regular file, of which a pipe could be waited for without end.
absl::StatusOr<std::optional<std::vector<std::byte>>> ReadFileStart(const std::string& path,
                                                                    size_t limit);
// Makes `directory`/`name` hold exactly these bytes: they are written to `name`.new and synced, the
// file is renamed, and the directory synced. A crash leaves the old file or the new one, and
// perhaps `name`.new, which the next call overwrites. Errors: FileError()'s.
absl::Status ReplaceFile(const std::string& directory, const std::string& name,
                         std::span<const std::byte> bytes);
// Overwrites a part of an existing file. A crash may leave it torn. Errors: FileError()'s.
absl::Status OverwriteFile(const std::string& path, uint64_t offset,
                           std::span<const std::byte> bytes);
// Makes creations, renames and removals in the directory durable. Errors: FileError()'s.
absl::Status SyncDirectory(const std::string& path);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_DURABLE_FILE_H_
