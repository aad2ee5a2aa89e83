// QueuedDisk is what the real Disks share: a bound on the I/Os in flight, and DiskIo,
// one read or write on its way through another thread.
#ifndef KVTIER_TIER_DISK_QUEUED_DISK_H_
#define KVTIER_TIER_DISK_QUEUED_DISK_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "core/event.h"
#include "core/executor.h"
#include "tier_disk/disk.h"

namespace kvtier {

// I/Os in flight per disk: the tier's puts, gets and a reclaim, with room.
inline constexpr size_t kMaxDiskIosInFlight = 512;

// One I/O and how far it has come. Moves from the executor to the thread that runs
// it; one thread at a time.
class DiskIo {
 public:
  enum class Kind : uint8_t { kRead, kWrite };
  using Done = absl::AnyInvocable<void(absl::Status)>;

  // REQUIRES: 1 to kMaxBuffersPerIo buffers, none empty, all whole pages.
  DiskIo(DiskAddress from, std::span<const std::span<std::byte>> into);
  DiskIo(DiskAddress to, std::span<const std::span<const std::byte>> from);

  Kind kind() const { return kind_; }
  SegmentId segment() const { return address_.segment; }
  // What is left, for preadv and its kin. Valid until the next Transferred().
  std::span<const iovec> buffers() const { return std::span(buffers_).subspan(first_, count_); }
  uint64_t offset() const { return address_.offset; }

  enum class Next : uint8_t { kFinished, kAgain };
  // Takes in what one system call answered: bytes moved, or -errno. kAgain: what is
  // left must be submitted again (short, EINTR, EAGAIN). kFinished: see status().
  Next Transferred(int64_t result);
  // kOk: every byte moved. kUnavailable: the device failed, or the file ended.
  // kResourceExhausted: the file system is full.
  const absl::Status& status() const { return status_; }

  Done done;  // Called once with status(), on any thread.

 private:
  void Add(void* data, size_t bytes);
  absl::Status Failure(absl::string_view what) const;

  const Kind kind_;
  DiskAddress address_;
  std::array<iovec, kMaxBuffersPerIo> buffers_{};
  size_t first_ = 0;  // Of the buffers not yet done.
  size_t count_ = 0;
  absl::Status status_;
};

class QueuedDisk : public Disk {
 public:
  uint32_t segment_count() const final { return segment_count_; }
  uint64_t segment_bytes() const final { return segment_bytes_; }
  Task<absl::Status> Read(DiskAddress from, std::span<const std::span<std::byte>> into) final;
  Task<absl::Status> Write(DiskAddress to, std::span<const std::span<const std::byte>> from) final;

 protected:
  QueuedDisk(Executor* executor, uint32_t segment_count, uint64_t segment_bytes)
      : executor_(executor), segment_count_(segment_count), segment_bytes_(segment_bytes) {}
  ~QueuedDisk() override;
  // Hands the I/O to another thread, which calls `io->done`.
  virtual void Submit(std::unique_ptr<DiskIo> io) = 0;

 private:
  Task<absl::Status> Run(std::unique_ptr<DiskIo> io);

  Executor* const executor_;  // Not owned.
  const uint32_t segment_count_;
  const uint64_t segment_bytes_;
  size_t in_flight_ = 0;  // Executor thread only.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_QUEUED_DISK_H_
