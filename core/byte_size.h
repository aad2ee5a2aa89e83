// Sizes as operators write them, in flags and on command lines.
#ifndef KVTIER_CORE_BYTE_SIZE_H_
#define KVTIER_CORE_BYTE_SIZE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kvtier {

// Parses "64", "64KiB", "64MiB", "64GiB", "64TiB". Errors: kInvalidArgument.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);

}  // namespace kvtier

#endif  // KVTIER_CORE_BYTE_SIZE_H_
