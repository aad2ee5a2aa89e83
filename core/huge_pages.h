// Huge pages for memory that files and devices fill. A page of 2 MiB lies in one piece
// of physical memory: a disk's driver hands it over as one segment, not as 512, and one
// entry of the TLB maps it.
//
// Thread-safe: no state.
#ifndef KVTIER_CORE_HUGE_PAGES_H_
#define KVTIER_CORE_HUGE_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvtier {

inline constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

// Maps the first `bytes` of a file with mmap(), shared, so that multiples of 2 MiB in the file are
// multiples of 2 MiB in memory: only so can a huge page be mapped whole. Unmapped by munmap().
// MAP_FAILED and errno: as mmap().
void* MapShared(int fd, uint64_t bytes, int protection);

// Maps every whole 2 MiB of a mapping by one huge page, as far as the kernel has free ones;
// contents stay. Returns true if all of them are huge now (a mapping of less than 2 MiB has none).
// Returns false if the rest has the pages it had, or none yet. Needs Linux 6.1 for memfds, but no
// setting of the system's: `shmem_enabled` may be `never`.
// REQUIRES: `memory` is writable and was mapped by MapShared().
bool TakeHugePages(std::span<std::byte> memory);

}  // namespace kvtier

#endif  // KVTIER_CORE_HUGE_PAGES_H_
