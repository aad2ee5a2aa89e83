#include "tier_disk/io/queued_disk.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/kill_point.h"
#include "core/space.h"

namespace kvtier {

QueuedDisk::QueuedDisk(Executor* executor, uint32_t segment_count, uint64_t segment_bytes,
                       absl::AnyInvocable<void()> flush)
    : executor_(executor),
      segment_count_(segment_count),
      segment_bytes_(segment_bytes),
      flush_ahead_(std::move(flush)) {}

QueuedDisk::~QueuedDisk() { KVT_CHECK(in_flight_ == 0); }

absl::AnyInvocable<void()> QueuedDisk::FlushBy(int file) {
  return [file] { static_cast<void>(fdatasync(file)); };
}

Task<absl::Status> QueuedDisk::Read(IoClass io_class, DiskAddress from,
                                    std::span<const std::span<std::byte>> into) {
  return Run(std::make_unique<DiskIo>(io_class, from, into));
}

Task<absl::Status> QueuedDisk::Write(IoClass io_class, DiskAddress to,
                                     std::span<const std::span<const std::byte>> from) {
  return Run(std::make_unique<DiskIo>(io_class, to, from));
}

Task<absl::Status> QueuedDisk::Run(std::unique_ptr<DiskIo> io) {
  const uint64_t end = io->offset() + io->bytes();
  const uint64_t to_write = io->kind() == DiskIo::Kind::kWrite ? io->bytes() : 0;
  KVT_CHECK(static_cast<uint32_t>(io->segment()) < segment_count_);
  KVT_CHECK(io->offset() % kBlockAlignment == 0 && end <= segment_bytes_);
  if (in_flight_ >= kMaxDiskIosInFlight) {
    co_return absl::ResourceExhaustedError(absl::StrCat(
        kMaxDiskIosInFlight, " disk I/Os are in flight, the most that may be; try again"));
  }
  ++in_flight_;
  AwaitCallback<absl::Status> finished(executor_, [this, &io](auto done) {
    io->done = std::move(done);
    Submit(std::move(io));
    KVT_KILL_POINT("io.submitted");
  });
  absl::Status status = co_await finished;
  --in_flight_;
  if (status.ok()) flush_ahead_.Wrote(to_write);
  co_return status;
}

}  // namespace kvtier
