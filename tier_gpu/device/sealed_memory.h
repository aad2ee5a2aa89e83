// Sealed memory is a memfd whose size nobody can change any more: its owner cannot truncate it and
// so kill a process that maps it (SIGBUS).
#ifndef KVTIER_TIER_GPU_DEVICE_SEALED_MEMORY_H_
#define KVTIER_TIER_GPU_DEVICE_SEALED_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvtier {

// Creates sealed memory of zeros, which takes memory as it is first written. The caller closes the
// descriptor. Errors: kResourceExhausted, as MemoryError().
absl::StatusOr<int> CreateSealedMemory(const char* name, uint64_t bytes);
// Duplicates the descriptor of another process's sealed memory; the caller closes the duplicate.
// Errors: kInvalidArgument, the descriptor is not sealed memory, or has another size;
// kResourceExhausted.
absl::StatusOr<int> DuplicateSealedMemory(int descriptor, uint64_t bytes);
// Returns kResourceExhausted: "CALL of BYTES bytes: " and the text of errno.
absl::Status MemoryError(const char* call, uint64_t bytes);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_SEALED_MEMORY_H_
