// UringDisk is the Disk seam over io_uring: one ring, and one thread that submits in batches and
// reaps. The segment files and the slabs of the arenas are registered, so no I/O looks a file up or
// pins the pages of a block.
#ifndef KVTIER_TIER_DISK_IO_URING_DISK_H_
#define KVTIER_TIER_DISK_IO_URING_DISK_H_

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/event.h"
#include "core/task.h"
#include "tier_disk/io/io_queue.h"
#include "tier_disk/io/queued_disk.h"

namespace kvtier {

// Maximum number of calls inside the kernel; more wait in our queue, ordered by IoClass. NVMe
// drives reach their full rate with far fewer.
inline constexpr unsigned kUringDepth = 128;
// Minimum size of a buffer in registered memory to get a call of its own, so that its pages are not
// pinned again. Below it, pinning costs less than a second call would (a record is header and
// payload).
inline constexpr uint64_t kMinFixedBytes = 1 << 20;
// Maximum number of regions of pinned memory, which is the ring's limit; beyond it memory is not
// pinned ahead.
inline constexpr unsigned kMaxPinnedRegions = 1 << 14;

class UringDisk final : public QueuedDisk {
 public:
  // Opens a disk. Does not own the files (by segment, open for O_DIRECT), which must outlive the
  // disk. Errors: kUnavailable, the kernel refuses io_uring (seccomp, sysctl, limits).
  static absl::StatusOr<std::unique_ptr<UringDisk>> Open(Executor* executor,
                                                         std::span<const int> files,
                                                         uint64_t segment_bytes);
  ~UringDisk() override;  // REQUIRES: no call is in flight.
  Task<absl::Status> AddMemory(std::vector<std::span<std::byte>> regions) override;
  Task<void> RemoveMemory(std::span<std::byte> region) override;
  void MoveToForeground(DiskAddress from, uint64_t bytes) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  UringDisk(Executor* executor, std::span<const int> files, uint64_t segment_bytes);
  absl::Status Start(std::span<const int> files);
  void Submit(std::unique_ptr<DiskIo> io) override ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the index in the ring of the pinned region that has the buffer; nullopt: none has.
  std::optional<int> RegionOf(const iovec& buffer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasPinnedPart(std::span<const iovec> buffers) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Wakes the ring thread to look for changes.
  void Wake();

  // Only the ring thread calls the methods from here on.
  absl::Status MakeRing(std::span<const int> files);
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  void ChangeMemory() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Pin(std::span<std::byte> region) ABSL_LOCKS_EXCLUDED(mu_);
  void Unpin(std::span<std::byte> region) ABSL_LOCKS_EXCLUDED(mu_);
  // Moves batches from the queue into the ring while it has room. Returns false when stopped.
  bool FillRing() ABSL_LOCKS_EXCLUDED(mu_);
  void Prepare(std::unique_ptr<IoBatch> batch) ABSL_LOCKS_EXCLUDED(mu_);
  void ListenForWake();
  void Reap();
  void End(std::unique_ptr<IoBatch> batch) ABSL_LOCKS_EXCLUDED(mu_);

  // Request of one AddMemory() or RemoveMemory() to the ring thread.
  struct MemoryChange {
    std::vector<std::span<std::byte>> add;
    std::span<std::byte> remove;
    AwaitCallback<absl::Status>::Done done;
  };
  // Region of pinned memory.
  struct Region {
    size_t bytes = 0;
    unsigned index = 0;  // Index in the ring.
  };
  // Hands the change to the ring thread.
  Task<absl::Status> Change(MemoryChange change);

  io_uring ring_{};
  bool ring_ready_ = false;   // Whether the ring exists.
  int wake_ = -1;             // eventfd, written when something changed for the ring thread.
  uint64_t wake_count_ = 0;   // Buffer into which the ring reads `wake_`.
  bool has_regions_ = false;  // Whether the ring has a table of regions.
  std::vector<unsigned> free_regions_;  // Unused indices; ring thread only.
  absl::Mutex mu_;
  IoQueue queue_ ABSL_GUARDED_BY(mu_){kUringDepth - 1};  // One entry of the ring is for the wake.
  bool woken_ ABSL_GUARDED_BY(mu_) = false;  // Whether `wake_` was written and not yet read.
  std::map<const char*, Region> regions_ ABSL_GUARDED_BY(mu_);  // Regions by their first byte.
  std::deque<MemoryChange> changes_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_URING_DISK_H_
