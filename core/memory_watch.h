// MemoryWatch says when this process has taken more memory than it may since the watch began. Files
// and shared memory (arenas) do not count. It bounds memory that kvtier cannot count as it is
// allocated, such as a library's buffers.
#ifndef KVTIER_CORE_MEMORY_WATCH_H_
#define KVTIER_CORE_MEMORY_WATCH_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace kvtier {

// Returns the resident bytes of the process that are its own alone; 0: the system does not say.
uint64_t PrivateBytes();

// Bytes of freed memory that KeepFreedMemory() has each of the allocator's arenas keep.
inline constexpr int kFreedMemoryKept = 16 << 20;
// Arenas of the allocator, so that what all of them keep is bounded on a machine of many cores.
inline constexpr int kAllocatorArenas = 16;
// Has the allocator keep freed memory for later buffers. If it went back to the system at once,
// each chunk of a peer's block would cost hundreds of page faults again. MemoryWatch gives it back
// when memory is short. REQUIRES: no thread has been started.
void KeepFreedMemory();

// Thread-safe.
class MemoryWatch {
 public:
  // `growth`: bytes that may be taken beyond those that are taken at the construction.
  explicit MemoryWatch(uint64_t growth) : limit_(PrivateBytes() + growth) {}
  // Returns whether the process has taken more than the limit and `extra` bytes. Before it returns
  // true, it gives back the memory that the allocator holds unused, once a second at most, since
  // that takes time.
  bool IsOverLimit(uint64_t extra) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const uint64_t limit_;
  absl::Mutex mu_;
  absl::Time trimmed_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

}  // namespace kvtier

#endif  // KVTIER_CORE_MEMORY_WATCH_H_
