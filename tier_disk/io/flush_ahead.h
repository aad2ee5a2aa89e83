// FlushAhead flushes a device's volatile cache while a disk is written, some MiB at a time.
//
// Without it, the sync of a manifest's commit finds all in the cache that was written since the
// last one, up to a segment of 128 MiB: on disks that flush slowly (many of clouds and laptops) it
// takes 0.1 to 1 s, in which puts and reads wait. A disk without such a cache flushes in
// microseconds.
//
// Thread-safe. One flush runs at a time, so a slow device is asked less often, for more bytes.
#ifndef KVTIER_TIER_DISK_IO_FLUSH_AHEAD_H_
#define KVTIER_TIER_DISK_IO_FLUSH_AHEAD_H_

#include <cstdint>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace kvtier {

// Bytes that are written before they are flushed.
inline constexpr uint64_t kFlushAheadBytes = 2 << 20;

class FlushAhead {
 public:
  // Calls `flush` from a thread of its own, which starts with the first kFlushAheadBytes; nullptr:
  // does nothing. No promise rests on a flush, so one that fails is not reported: a record whose
  // bytes the device lost fails its verification.
  explicit FlushAhead(absl::AnyInvocable<void()> flush);
  FlushAhead(const FlushAhead&) = delete;
  FlushAhead& operator=(const FlushAhead&) = delete;
  ~FlushAhead();  // Waits for a flush that runs.

  // Notes bytes that the device took.
  void Wrote(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return stopping_ || unflushed_ >= kFlushAheadBytes;
  }

  absl::AnyInvocable<void()> flush_;  // Called by the thread alone.
  absl::Mutex mu_;
  uint64_t unflushed_ ABSL_GUARDED_BY(mu_) = 0;  // Bytes.
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_FLUSH_AHEAD_H_
