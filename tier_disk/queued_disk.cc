#include "tier_disk/queued_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/space.h"

namespace kvtier {

DiskIo::DiskIo(DiskAddress from, std::span<const std::span<std::byte>> into)
    : kind_(Kind::kRead), address_(from) {
  for (const std::span<std::byte> buffer : into) Add(buffer.data(), buffer.size());
}

DiskIo::DiskIo(DiskAddress to, std::span<const std::span<const std::byte>> from)
    : kind_(Kind::kWrite), address_(to) {
  // The kernel only reads them; iovec has no const.
  for (const std::span<const std::byte> buffer : from) {
    Add(const_cast<std::byte*>(buffer.data()), buffer.size());
  }
}

void DiskIo::Add(void* data, size_t bytes) {
  KVT_CHECK(count_ < kMaxBuffersPerIo);
  KVT_CHECK(bytes > 0 && bytes % kBlockAlignment == 0);
  KVT_CHECK(reinterpret_cast<uintptr_t>(data) % kBlockAlignment == 0);
  buffers_[count_++] = {.iov_base = data, .iov_len = bytes};
}

absl::Status DiskIo::Failure(absl::string_view what) const {
  return absl::UnavailableError(
      absl::StrCat(kind_ == Kind::kRead ? "read" : "write", " of segment ",
                   static_cast<uint32_t>(address_.segment), " at ", address_.offset, ": ", what));
}

DiskIo::Next DiskIo::Transferred(int64_t result) {
  if (result == -EINTR || result == -EAGAIN) return Next::kAgain;
  if (result == -ENOSPC || result == -EDQUOT) {
    status_ = absl::ResourceExhaustedError(Failure("file system is full").message());
    return Next::kFinished;
  }
  if (result < 0) {
    status_ = Failure(std::strerror(static_cast<int>(-result)));
    return Next::kFinished;
  }
  if (result == 0) {
    status_ = Failure("the file ends here");
    return Next::kFinished;
  }
  address_.offset += static_cast<uint64_t>(result);
  auto left = static_cast<size_t>(result);
  while (left > 0) {
    KVT_CHECK(count_ > 0);
    iovec& buffer = buffers_[first_];
    const size_t step = std::min(left, buffer.iov_len);
    buffer.iov_base = static_cast<char*>(buffer.iov_base) + step;
    buffer.iov_len -= step;
    left -= step;
    if (buffer.iov_len > 0) break;
    ++first_;
    --count_;
  }
  return count_ == 0 ? Next::kFinished : Next::kAgain;
}

QueuedDisk::~QueuedDisk() { KVT_CHECK(in_flight_ == 0); }

Task<absl::Status> QueuedDisk::Read(DiskAddress from, std::span<const std::span<std::byte>> into) {
  return Run(std::make_unique<DiskIo>(from, into));
}

Task<absl::Status> QueuedDisk::Write(DiskAddress to,
                                     std::span<const std::span<const std::byte>> from) {
  return Run(std::make_unique<DiskIo>(to, from));
}

Task<absl::Status> QueuedDisk::Run(std::unique_ptr<DiskIo> io) {
  uint64_t end = io->offset();
  for (const iovec& buffer : io->buffers()) end += buffer.iov_len;
  KVT_CHECK(static_cast<uint32_t>(io->segment()) < segment_count_);
  KVT_CHECK(io->offset() % kBlockAlignment == 0 && end <= segment_bytes_);
  if (in_flight_ >= kMaxDiskIosInFlight) {
    co_return absl::ResourceExhaustedError(
        absl::StrCat(kMaxDiskIosInFlight, " disk I/Os are in flight"));
  }
  ++in_flight_;
  AwaitCallback<absl::Status> finished(executor_, [this, &io](auto done) {
    io->done = std::move(done);
    Submit(std::move(io));
  });
  absl::Status status = co_await finished;
  --in_flight_;
  co_return status;
}

}  // namespace kvtier
