#include "core/huge_pages.h"

#include <sys/mman.h>

namespace kvtier {
namespace {

#ifndef MADV_COLLAPSE  // glibc 2.37 names it.
constexpr int MADV_COLLAPSE = 25;
#endif
#ifndef MADV_POPULATE_WRITE
constexpr int MADV_POPULATE_WRITE = 23;
#endif
constexpr uint64_t kSmallPageBytes = 4096;

}  // namespace

void* MapShared(int fd, uint64_t bytes, int protection) {
  if (bytes < kHugePageBytes) return mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  // Reserves more addresses than needed, to align the mapping; the rest at both ends is unmapped.
  const uint64_t room = bytes + kHugePageBytes;
  void* const reserved =
      mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return MAP_FAILED;
  auto* const begin = static_cast<std::byte*>(reserved);
  const uint64_t over = reinterpret_cast<uintptr_t>(begin) % kHugePageBytes;
  std::byte* const start = begin + (over == 0 ? 0 : kHugePageBytes - over);
  void* const mapped = mmap(start, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED) {
    munmap(reserved, room);
    return MAP_FAILED;
  }
  std::byte* const end = start + bytes;
  if (start > begin) munmap(begin, static_cast<size_t>(start - begin));
  if (end < begin + room) munmap(end, static_cast<size_t>(begin + room - end));
  return mapped;
}

bool TakeHugePages(std::span<std::byte> memory) {
  const uint64_t whole = memory.size() - memory.size() % kHugePageBytes;
  for (uint64_t at = 0; at < whole; at += kHugePageBytes) {
    // The kernel collapses a range only where it finds a page, so one page is taken first. The
    // kernel zeroes the others in place, in a third of the time that 512 faults take.
    if (madvise(memory.data() + at, kSmallPageBytes, MADV_POPULATE_WRITE) != 0) return false;
    // This fails where free memory is fragmented. The kernel has then searched for long, and would
    // do so again for every later piece, so the caller gives up.
    if (madvise(memory.data() + at, kHugePageBytes, MADV_COLLAPSE) != 0) return false;
  }
  return true;
}

}  // namespace kvtier
