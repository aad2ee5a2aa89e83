// Disk is the storage seam (law 9): it reads and writes segment files at 4 KiB granularity, and
// nothing else. It knows no records, keys or checksums. It has three forms: UringDisk (io_uring,
// O_DIRECT), PreadDisk (a thread pool, where io_uring is refused) and the simulator's, with faults.
#ifndef KVTIER_TIER_DISK_IO_DISK_H_
#define KVTIER_TIER_DISK_IO_DISK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "core/task.h"

namespace kvtier {

enum class SegmentId : uint32_t {};

// Start of an I/O. REQUIRES: `offset` is a multiple of 4096.
struct DiskAddress {
  SegmentId segment{};
  uint64_t offset = 0;
};

// Purpose of an I/O. The order is the order of service: an earlier class goes first.
enum class IoClass : uint8_t { kForeground, kPrefetch, kOffload, kReclaim, kScrub };
inline constexpr size_t kIoClassCount = 5;

// Maximum number of buffers of one I/O (record header and payload, with some to spare).
inline constexpr size_t kMaxBuffersPerIo = 4;

// Disk reads and writes segments. Executor thread only; the bytes move elsewhere. REQUIRES: the
// address and size of every buffer are multiples of 4096, and the buffer outlives the call; an I/O
// lies inside one segment. A call is never abandoned: it ends when the device is done with the
// buffers, however long that takes. Callers keep deadlines themselves.
class Disk {
 public:
  virtual ~Disk() = default;
  virtual uint32_t segment_count() const = 0;
  virtual uint64_t segment_bytes() const = 0;
  // Pins memory that most I/O will use (slabs of the arenas), so that it need not be pinned again
  // for each I/O. The memory stays mapped until RemoveMemory(), or until the last I/O has ended.
  // Takes some 2 ms for 64 MiB. Errors: kUnavailable, the kernel refuses (RLIMIT_MEMLOCK): the disk
  // works as before.
  virtual Task<absl::Status> AddMemory(std::vector<std::span<std::byte>> /*regions*/) {
    co_return absl::OkStatus();  // This disk does not use the regions.
  }
  // Removes a region that AddMemory() was given, whatever AddMemory() returned. REQUIRES: no I/O
  // uses it.
  virtual Task<void> RemoveMemory(std::span<std::byte> /*region*/) { co_return; }
  // Fills the buffers in order. Errors: kUnavailable, the device failed or was short (worth a retry
  // elsewhere, the bytes are undefined); kResourceExhausted, too many I/Os are in flight.
  virtual Task<absl::Status> Read(IoClass io_class, DiskAddress from,
                                  std::span<const std::span<std::byte>> into) = 0;
  // Moves prefetch reads that begin in these bytes and have not started to the foreground, in
  // order, because somebody waits for them now.
  virtual void MoveToForeground(DiskAddress from, uint64_t bytes) = 0;
  // Writes the buffers in order; on return they are on the device (O_DIRECT; the checksums cover a
  // volatile write cache inside the device). Errors: as Read, and kResourceExhausted when the file
  // system is full.
  virtual Task<absl::Status> Write(IoClass io_class, DiskAddress to,
                                   std::span<const std::span<const std::byte>> from) = 0;
  // Notes that the manifest beside this disk did not commit a change, so that a disk whose rows
  // are lost counts as a bad one. kNotFound: the files are no longer where the next start looks for
  // them. kUnavailable: an error like that of an I/O.
  virtual void CommitFailed(const absl::Status& /*why*/) {}
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_DISK_H_
