// PreadDisk is the Disk seam over preadv and pwritev in a pool of threads, for machines where the
// kernel refuses io_uring, as containers' default seccomp profile does.
#ifndef KVTIER_TIER_DISK_IO_PREAD_DISK_H_
#define KVTIER_TIER_DISK_IO_PREAD_DISK_H_

#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tier_disk/io/io_queue.h"
#include "tier_disk/io/queued_disk.h"

namespace kvtier {

inline constexpr int kPreadThreads = 16;  // Queue depth that the device sees.

class PreadDisk final : public QueuedDisk {
 public:
  // Durability says how a write gets to the device before it returns: kDirect, by O_DIRECT;
  // kSyncEachWrite, by fdatasync of a buffered file.
  enum class Durability : uint8_t { kDirect, kSyncEachWrite };
  // Does not own the files (by segment), which must outlive the disk.
  PreadDisk(Executor* executor, std::span<const int> files, uint64_t segment_bytes,
            Durability durability = Durability::kDirect);
  ~PreadDisk() override;  // Joins the threads. REQUIRES: no call is in flight.
  void MoveToForeground(DiskAddress from, uint64_t bytes) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Submit(std::unique_ptr<DiskIo> io) override ABSL_LOCKS_EXCLUDED(mu_);
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  void Transfer(IoBatch* batch) const;

  const std::vector<int> files_;
  const Durability durability_;
  absl::Mutex mu_;
  IoQueue queue_ ABSL_GUARDED_BY(mu_){kPreadThreads};
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_PREAD_DISK_H_
