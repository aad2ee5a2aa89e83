// FreeMemory() says how much memory this process may still take before the system, or a cgroup that
// it is in, has none left. A cgroup at its limit ends processes; it does not refuse them memory.
//
// Thread-safe. It reads some files of /proc and /sys.
#ifndef KVTIER_CORE_FREE_MEMORY_H_
#define KVTIER_CORE_FREE_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace kvtier {

// Returns the directories of this process's cgroup and of those above it, the innermost first, as
// containers see them: of the cgroups v1 of `controller` ("memory"), or else of v2. `root` stands
// before each path: tests have one of their own.
std::vector<std::string> CgroupDirectories(absl::string_view controller,
                                           const std::string& root = "");

// Limit of the memory of this process, and the file that says it.
struct MemoryLimit {
  uint64_t bytes = UINT64_MAX;
  std::string file;
};
// Return the least limit of a cgroup of this process (UINT64_MAX: it has none), and the least of
// these and of the machine's memory.
MemoryLimit CgroupMemoryLimit(const std::string& root = "");
MemoryLimit LeastMemoryLimit(const std::string& root = "");

// Returns the least of the system's available memory and the rest of each cgroup's limit, in bytes.
// Page cache that the kernel gives up first counts as free. UINT64_MAX: neither can be read.
uint64_t FreeMemoryUnder(const std::string& root);
inline uint64_t FreeMemory() { return FreeMemoryUnder(""); }

}  // namespace kvtier

#endif  // KVTIER_CORE_FREE_MEMORY_H_
