// Sealed memory is a memfd whose size nobody can change any more: a process that maps a
// descriptor it was handed cannot be killed by its owner cutting it off (SIGBUS).
#ifndef KVTIER_TIER_GPU_DEVICE_SEALED_MEMORY_H_
#define KVTIER_TIER_GPU_DEVICE_SEALED_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvtier {

// A new one, of zeros, which takes memory as it is first written; the caller closes it.
// Errors: kResourceExhausted, with errno's text, like all that begins with `what`.
absl::StatusOr<int> CreateSealedMemory(const char* name, uint64_t bytes);
// A duplicate of another process's, to be closed by the caller. Errors: kInvalidArgument,
// the descriptor is none, or of another size; kResourceExhausted.
absl::StatusOr<int> DuplicateSealedMemory(int descriptor, uint64_t bytes);
// "CALL of BYTES bytes: " and errno's text, as kResourceExhausted.
absl::Status MemoryError(const char* call, uint64_t bytes);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_SEALED_MEMORY_H_
