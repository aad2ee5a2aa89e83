// UringDisk is the Disk seam over io_uring: one ring, one thread that submits in
// batches and reaps; the segment files and the arenas are registered, so that no I/O
// looks a file up or pins the pages of a block.
#ifndef KVTIER_TIER_DISK_IO_URING_DISK_H_
#define KVTIER_TIER_DISK_IO_URING_DISK_H_

#include <liburing.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "tier_disk/io/io_queue.h"
#include "tier_disk/io/queued_disk.h"

namespace kvtier {

// Calls inside the kernel at a time; more wait in our queue, ordered by whom they
// serve. NVMe queues saturate far below it.
inline constexpr unsigned kUringDepth = 128;
// From this size on a buffer in registered memory goes in a call of its own, so that
// its pages are not pinned again. Below, pinning costs less than a second call would
// (a record is header and payload).
inline constexpr uint64_t kMinFixedBytes = 1 << 20;

class UringDisk final : public QueuedDisk {
 public:
  // Does not own the files (by segment, open for O_DIRECT); they outlive the disk.
  // Errors: kUnavailable, the kernel refuses io_uring (seccomp, sysctl, limits).
  static absl::StatusOr<std::unique_ptr<UringDisk>> Open(Executor* executor,
                                                         std::span<const int> files,
                                                         uint64_t segment_bytes);
  ~UringDisk() override;  // REQUIRES: no call is in flight.
  absl::Status RegisterBuffers(std::span<const std::span<std::byte>> regions) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void Hasten(DiskAddress from, uint64_t bytes) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  UringDisk(Executor* executor, std::span<const int> files, uint64_t segment_bytes);
  absl::Status Start(std::span<const int> files);
  void Submit(std::unique_ptr<DiskIo> io) override ABSL_LOCKS_EXCLUDED(mu_);
  // True for memory that the ring has pinned.
  bool IsFixed(const iovec& buffer) const { return RegionOf(buffer).has_value(); }
  std::optional<int> RegionOf(const iovec& buffer) const;
  // Has the ring thread look at what changed.
  void Wake();

  // The ring thread, from here on.
  absl::Status MakeRing(std::span<const int> files);
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  void RegisterPending() ABSL_LOCKS_EXCLUDED(mu_);
  // Moves batches from the queue into the ring while it has room. False: stopped.
  bool FillRing() ABSL_LOCKS_EXCLUDED(mu_);
  void Prepare(std::unique_ptr<IoBatch> batch);
  void ListenForWake();
  void Reap();
  void End(std::unique_ptr<IoBatch> batch) ABSL_LOCKS_EXCLUDED(mu_);

  struct Registration {
    std::vector<iovec> regions;
    absl::Status status;
    absl::Notification done;
  };

  io_uring ring_{};
  bool ring_ready_ = false;  // The ring exists.
  int wake_ = -1;            // eventfd: something changed for the ring thread.
  uint64_t wake_count_ = 0;  // Where the ring reads `wake_` into.
  // Pinned memory, by index in the ring. Written by the ring thread while the caller of
  // RegisterBuffers() waits, and never again.
  std::vector<iovec> regions_;
  absl::Mutex mu_;
  IoQueue queue_ ABSL_GUARDED_BY(mu_){kUringDepth - 1};  // One entry is the wake's.
  bool woken_ ABSL_GUARDED_BY(mu_) = false;              // `wake_` was written, not yet read.
  Registration* registering_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_URING_DISK_H_
