// DiskIo is one read or write on its way to the device and back. IoBatch is a run of them that are
// adjacent on the disk and move in one system call.
//
// Neither is thread-safe: they pass from the executor to the thread that runs them.
#ifndef KVTIER_TIER_DISK_IO_DISK_IO_H_
#define KVTIER_TIER_DISK_IO_DISK_IO_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "tier_disk/io/disk.h"

namespace kvtier {

class DiskIo {
 public:
  enum class Kind : uint8_t { kRead, kWrite };
  using Done = absl::AnyInvocable<void(absl::Status)>;

  // Make a read and a write. REQUIRES: 1 to kMaxBuffersPerIo buffers, none empty, all whole pages.
  DiskIo(IoClass io_class, DiskAddress from, std::span<const std::span<std::byte>> into);
  DiskIo(IoClass io_class, DiskAddress to, std::span<const std::span<const std::byte>> from);

  Kind kind() const { return kind_; }
  IoClass io_class() const { return class_; }
  SegmentId segment() const { return address_.segment; }
  uint64_t offset() const { return address_.offset; }
  uint64_t bytes() const { return bytes_; }
  std::span<const iovec> buffers() const { return buffers_; }
  void MoveToForeground() { class_ = IoClass::kForeground; }
  // Returns kUnavailable with `what`, the kind of I/O and its place.
  absl::Status Failure(absl::string_view what) const;

  // Cuts an I/O of several buffers into one for each; `done` is called when all have ended, with
  // the first failure.
  static std::vector<std::unique_ptr<DiskIo>> Split(std::unique_ptr<DiskIo> io);

  Done done;  // Function that is called once, on any thread.

 private:
  DiskIo(Kind kind, IoClass io_class, DiskAddress address)
      : kind_(kind), class_(io_class), address_(address) {}
  void Add(void* data, size_t bytes);

  const Kind kind_;
  IoClass class_;
  const DiskAddress address_;
  std::vector<iovec> buffers_;
  uint64_t bytes_ = 0;
};

// Maximum bytes of a batch of several I/Os. At this size the cost of the call no longer matters (64
// KiB blocks gain most), and a longer batch would only make its first member wait for its last.
inline constexpr uint64_t kMaxBatchBytes = 512 << 10;
inline constexpr size_t kMaxBatchBuffers = 32;  // Well below IOV_MAX.

class IoBatch {
 public:
  explicit IoBatch(std::unique_ptr<DiskIo> first);
  DiskIo::Kind kind() const { return members_.front()->kind(); }
  IoClass io_class() const { return members_.front()->io_class(); }
  SegmentId segment() const { return members_.front()->segment(); }
  uint64_t bytes() const { return bytes_; }  // Bytes of all members.
  // Returns whether `next` directly follows the last member and there is room for it.
  bool Takes(const DiskIo& next) const;
  void Add(std::unique_ptr<DiskIo> next);

  // Returns the remaining buffers, for preadv and its kin. Valid until the next Transferred().
  std::span<const iovec> buffers() const { return std::span(buffers_).subspan(first_); }
  uint64_t offset() const { return offset_; }

  enum class Next : uint8_t { kFinished, kAgain };
  // Processes the result of one system call: bytes moved, or -errno. kAgain: the remaining bytes
  // must be submitted again (short, EINTR, EAGAIN). kFinished: see Finish().
  Next Transferred(int64_t result);

  // Reports the result to the members. If a batch of several failed, the failing member is unknown:
  // nothing is reported, and each member is returned as a batch of its own. REQUIRES: Transferred()
  // returned kFinished.
  std::vector<std::unique_ptr<IoBatch>> Finish();

 private:
  std::vector<std::unique_ptr<DiskIo>> members_;
  std::vector<iovec> buffers_;
  size_t first_ = 0;  // Index of the first buffer with bytes left to move.
  uint64_t offset_ = 0;
  uint64_t bytes_ = 0;
  absl::Status status_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_DISK_IO_H_
