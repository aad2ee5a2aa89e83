#include "core/memory_watch.h"

#include <malloc.h>
#include <unistd.h>

#include <cstdio>

#include "core/clock.h"

namespace kvtier {
namespace {

constexpr absl::Duration kTrimInterval = absl::Seconds(1);
// Larger buffers than this come from the system and go back to it at once.
constexpr int kMaxBufferKept = kFreedMemoryKept / 4;

}  // namespace

uint64_t PrivateBytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long pages = 0;
  unsigned long long resident = 0;
  unsigned long long shared = 0;
  const int read = std::fscanf(file, "%llu %llu %llu", &pages, &resident, &shared);
  std::fclose(file);
  if (read != 3 || resident < shared) return 0;
  return (resident - shared) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void KeepFreedMemory() {
  mallopt(M_ARENA_MAX, kAllocatorArenas);
  mallopt(M_TRIM_THRESHOLD, kFreedMemoryKept);
  mallopt(M_MMAP_THRESHOLD, kMaxBufferKept);
}

bool MemoryWatch::IsOverLimit(uint64_t extra) {
  if (PrivateBytes() <= limit_ + extra) return false;
  {
    absl::MutexLock lock(&mu_);
    if (MonotonicClock().Now() - trimmed_ < kTrimInterval) return true;
    trimmed_ = MonotonicClock().Now();
  }
  malloc_trim(0);
  return PrivateBytes() > limit_ + extra;
}

}  // namespace kvtier
