// QueuedDisk is the common part of the real Disks: it bounds the I/Os in flight, runs each on
// another thread, whose result it brings back to the executor, and flushes the device while it
// writes.
#ifndef KVTIER_TIER_DISK_IO_QUEUED_DISK_H_
#define KVTIER_TIER_DISK_IO_QUEUED_DISK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "core/event.h"
#include "core/executor.h"
#include "tier_disk/io/disk.h"
#include "tier_disk/io/disk_io.h"
#include "tier_disk/io/flush_ahead.h"

namespace kvtier {

// Maximum number of I/Os in flight for each disk: the tier's puts, gets and a reclaim, with some to
// spare.
inline constexpr size_t kMaxDiskIosInFlight = 512;

class QueuedDisk : public Disk {
 public:
  uint32_t segment_count() const final { return segment_count_; }
  uint64_t segment_bytes() const final { return segment_bytes_; }
  Task<absl::Status> Read(IoClass io_class, DiskAddress from,
                          std::span<const std::span<std::byte>> into) final;
  Task<absl::Status> Write(IoClass io_class, DiskAddress to,
                           std::span<const std::span<const std::byte>> from) final;

 protected:
  // FlushAhead calls `flush`; nullptr: the device needs no flush.
  QueuedDisk(Executor* executor, uint32_t segment_count, uint64_t segment_bytes,
             absl::AnyInvocable<void()> flush);
  ~QueuedDisk() override;
  Executor* executor() const { return executor_; }
  // Returns a flush of the device on which the file lies. The file must outlive it.
  static absl::AnyInvocable<void()> FlushBy(int file);
  // Hands the I/O to another thread, which calls `io->done`.
  virtual void Submit(std::unique_ptr<DiskIo> io) = 0;

 private:
  Task<absl::Status> Run(std::unique_ptr<DiskIo> io);

  Executor* const executor_;  // Borrowed.
  const uint32_t segment_count_;
  const uint64_t segment_bytes_;
  size_t in_flight_ = 0;  // Executor thread only.
  FlushAhead flush_ahead_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_QUEUED_DISK_H_
