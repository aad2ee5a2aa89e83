// FreeMemory() says how much memory this process may still take before the system, or a cgroup that
// it is in, has none left. A cgroup at its limit ends processes; it does not refuse them memory.
//
// Thread-safe. It reads some files of /proc and /sys.
#ifndef KVTIER_CORE_FREE_MEMORY_H_
#define KVTIER_CORE_FREE_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

namespace kvtier {

// Returns the directories of this process's cgroup (v2) and of those above it, the innermost first,
// as containers see them. `root` stands before each path: tests have one of their own.
std::vector<std::string> CgroupDirectories(const std::string& root = "");

// Returns the least of the system's available memory and the rest of each cgroup's limit, in bytes.
// Page cache that the kernel gives up first counts as free. UINT64_MAX: neither can be read.
uint64_t FreeMemoryUnder(const std::string& root);
inline uint64_t FreeMemory() { return FreeMemoryUnder(""); }

}  // namespace kvtier

#endif  // KVTIER_CORE_FREE_MEMORY_H_
