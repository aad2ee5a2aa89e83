// UringDisk is the Disk seam over io_uring: one ring, one thread that submits in
// batches and reaps, the segment files registered.
#ifndef KVTIER_TIER_DISK_URING_DISK_H_
#define KVTIER_TIER_DISK_URING_DISK_H_

#include <liburing.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "tier_disk/queued_disk.h"

namespace kvtier {

// I/Os inside the kernel at a time; more wait in our queue, where they can later be
// ordered by whom they serve. NVMe queues saturate far below it.
inline constexpr unsigned kUringDepth = 128;

class UringDisk final : public QueuedDisk {
 public:
  // Does not own the files (by segment, open for O_DIRECT); they outlive the disk.
  // Errors: kUnavailable, the kernel refuses io_uring (seccomp, sysctl, limits).
  static absl::StatusOr<std::unique_ptr<UringDisk>> Open(Executor* executor,
                                                         std::span<const int> files,
                                                         uint64_t segment_bytes);
  ~UringDisk() override;  // REQUIRES: no call is in flight.

 private:
  UringDisk(Executor* executor, std::span<const int> files, uint64_t segment_bytes);
  absl::Status Start(std::span<const int> files);
  void Submit(std::unique_ptr<DiskIo> io) override ABSL_LOCKS_EXCLUDED(mu_);

  // The ring thread, from here on.
  absl::Status MakeRing(std::span<const int> files);
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  // Moves I/Os from the queue into the ring while it has room. False: stopped.
  bool FillRing() ABSL_LOCKS_EXCLUDED(mu_);
  void Prepare(std::unique_ptr<DiskIo> io);
  void ListenForWake();
  void Reap();

  io_uring ring_{};
  bool ring_ready_ = false;  // The ring exists.
  int wake_ = -1;            // eventfd: the queue is no longer empty, or stop.
  uint64_t wake_count_ = 0;  // Where the ring reads `wake_` into.
  unsigned in_ring_ = 0;
  absl::Mutex mu_;
  std::deque<std::unique_ptr<DiskIo>> queue_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_URING_DISK_H_
