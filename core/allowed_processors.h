// AllowedProcessors() says how many threads of this process can run at the same time: fewer than
// the machine has processors where it is bound to some of them, or where a cgroup rations its time.
//
// Thread-safe. It reads some files of /proc and /sys.
#ifndef KVTIER_CORE_ALLOWED_PROCESSORS_H_
#define KVTIER_CORE_ALLOWED_PROCESSORS_H_

#include <cstddef>
#include <string>

namespace kvtier {

// Returns the least of the processors of the thread's affinity mask and of each cgroup's quota,
// rounded up; at least 1. `root` stands before each path: tests have one of their own.
size_t AllowedProcessors(const std::string& root = "");

}  // namespace kvtier

#endif  // KVTIER_CORE_ALLOWED_PROCESSORS_H_
