// WatchedDisk is a Disk over a Disk: it times every I/O for DiskHealth, notices I/Os that do not
// end, keeps I/Os away from a quarantined disk, and probes that disk until it is fit again. It
// knows no blocks.
//
// Executor thread only. Does not own `executor`, `scope` or `disk`. Probes run in `scope`.
// REQUIRES: the tasks of its calls and of `scope` have ended, or were destroyed, before the
// WatchedDisk is.
#ifndef KVTIER_TIER_DISK_IO_WATCHED_DISK_H_
#define KVTIER_TIER_DISK_IO_WATCHED_DISK_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "core/executor.h"
#include "core/task_scope.h"
#include "tier_disk/io/disk.h"
#include "tier_disk/io/disk_health.h"

namespace kvtier {

// Interval at which a disk with an I/O in flight is checked.
inline constexpr absl::Duration kWatchInterval = absl::Milliseconds(250);
// Bytes that a probe reads, about as many as a block has; a whole segment if it is smaller.
inline constexpr uint64_t kProbeBytes = uint64_t{1} << 20;

class WatchedDisk final : public Disk {
 public:
  // Called whenever the disk stops or starts being healthy, from within the end of the I/O that
  // decided it. Must not start an I/O.
  using OnChange = absl::AnyInvocable<void()>;

  WatchedDisk(Executor* executor, TaskScope* scope, Disk* disk)
      : executor_(executor), scope_(scope), disk_(disk) {}
  ~WatchedDisk() override;
  WatchedDisk(const WatchedDisk&) = delete;
  WatchedDisk& operator=(const WatchedDisk&) = delete;

  void SetOnChange(OnChange on_change) { on_change_ = std::move(on_change); }
  const DiskHealth& health() const { return health_; }
  size_t in_flight() const { return io_starts_.size(); }
  // Returns the bytes given to the disk to write, whatever the outcome: they measure its wear.
  uint64_t written_bytes() const { return written_bytes_; }

  uint32_t segment_count() const override { return disk_->segment_count(); }
  uint64_t segment_bytes() const override { return disk_->segment_bytes(); }
  Task<absl::Status> AddMemory(std::vector<std::span<std::byte>> regions) override {
    return disk_->AddMemory(std::move(regions));
  }
  Task<void> RemoveMemory(std::span<std::byte> region) override {
    return disk_->RemoveMemory(region);
  }
  void MoveToForeground(DiskAddress from, uint64_t bytes) override {
    disk_->MoveToForeground(from, bytes);
  }
  // Errors: the disk's; kUnavailable at once, without trying, while it is not healthy.
  Task<absl::Status> Read(IoClass io_class, DiskAddress from,
                          std::span<const std::span<std::byte>> into) override;
  Task<absl::Status> Write(IoClass io_class, DiskAddress to,
                           std::span<const std::span<const std::byte>> from) override;
  void CommitFailed(const absl::Status& why) override;

 private:
  // PendingIo is one I/O in flight; the destructor ends it in every case.
  class PendingIo {
   public:
    PendingIo(WatchedDisk* disk, uint64_t bytes);
    PendingIo(const PendingIo&) = delete;
    PendingIo& operator=(const PendingIo&) = delete;
    ~PendingIo();
    // Returns a report with the device's result and the time it took.
    IoReport Report(const absl::Status& status) const;

   private:
    WatchedDisk* const disk_;
    const uint64_t bytes_;
    const uint64_t backlog_bytes_;
    const std::list<absl::Time>::iterator started_;
  };

  absl::Status Refusal() const;
  void Ended(const absl::Status& status, const PendingIo& io);
  // Sets the timer for the next Check(), unless it is set or there is nothing to check.
  void SetTimer();
  void Check(absl::Time due);
  Task<void> Probe();
  void TellChange();

  Executor* const executor_;
  TaskScope* const scope_;
  Disk* const disk_;
  OnChange on_change_;
  DiskHealth health_;
  bool told_healthy_ = true;
  std::list<absl::Time> io_starts_;  // Start of each I/O in flight, the oldest first.
  uint64_t backlog_bytes_ = 0;
  uint64_t written_bytes_ = 0;
  std::optional<TimerId> timer_;
  uint64_t probes_ = 0;  // Number so far.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_WATCHED_DISK_H_
