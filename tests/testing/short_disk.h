// ShortDisk is a QueuedDisk whose system calls are simulated: each moves a random part of the bytes
// that it was asked for, or no byte because it was interrupted. All code around the call is that of
// the real disks.
#ifndef KVTIER_TESTS_TESTING_SHORT_DISK_H_
#define KVTIER_TESTS_TESTING_SHORT_DISK_H_

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "tests/testing/sim_disk.h"
#include "tier_disk/io/queued_disk.h"

namespace kvtier::testing {

// Only the executor's thread uses it. It does not own `media`, and ignores its faults.
class ShortDisk final : public QueuedDisk {
 public:
  ShortDisk(Executor* executor, SimDiskMedia* media, absl::AnyInvocable<void()> flush = nullptr)
      : QueuedDisk(executor, media->segment_count(), media->segment_bytes(), std::move(flush)),
        media_(media) {}
  void MoveToForeground(DiskAddress /*from*/, uint64_t /*bytes*/) override {}  // There is no queue.
  uint64_t shorts() const { return shorts_; }  // Calls that moved fewer bytes.

 private:
  void Submit(std::unique_ptr<DiskIo> io) override {
    IoBatch batch(std::move(io));
    while (batch.Transferred(Call(batch)) == IoBatch::Next::kAgain) ++shorts_;
    batch.Finish();
  }

  // Returns what preadv or pwritev would have returned. It may stop at any byte, as they may.
  int64_t Call(const IoBatch& batch) {
    if (media_->Draw(0.1)) return media_->Draw(0.5) ? -EINTR : -EAGAIN;
    uint64_t left = 0;
    for (const iovec& buffer : batch.buffers()) left += buffer.iov_len;
    if (media_->Draw(0.8)) left = 1 + media_->Below(left);
    const auto moved = static_cast<int64_t>(left);
    DiskAddress at{.segment = batch.segment(), .offset = batch.offset()};
    for (const iovec& buffer : batch.buffers()) {
      const uint64_t bytes = std::min<uint64_t>(left, buffer.iov_len);
      if (bytes == 0) break;
      const std::span part(static_cast<std::byte*>(buffer.iov_base), bytes);
      if (batch.kind() == DiskIo::Kind::kWrite) {
        media_->WriteRaw(at, part);
      } else {
        const std::vector<std::byte> stored = media_->ReadRaw(at, bytes);
        std::copy(stored.begin(), stored.end(), part.begin());
      }
      at.offset += bytes;
      left -= bytes;
    }
    return moved;
  }

  SimDiskMedia* const media_;
  uint64_t shorts_ = 0;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_SHORT_DISK_H_
