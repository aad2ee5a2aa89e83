#include "tier_disk/io/disk_io.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/check.h"
#include "core/space.h"

namespace kvtier {
namespace {

// Join gathers the results of the parts of one I/O, which may end on several threads.
class Join {
 public:
  Join(size_t parts, DiskIo::Done done) : left_(parts), done_(std::move(done)) {}
  void Ended(const absl::Status& status) {
    {
      absl::MutexLock lock(&mu_);
      status_.Update(status);
      if (--left_ > 0) return;
    }
    done_(status_);
  }

 private:
  absl::Mutex mu_;
  size_t left_ ABSL_GUARDED_BY(mu_);
  absl::Status status_;  // Guarded by mu_ until the last part has ended.
  DiskIo::Done done_;
};

}  // namespace

DiskIo::DiskIo(IoClass io_class, DiskAddress from, std::span<const std::span<std::byte>> into)
    : DiskIo(Kind::kRead, io_class, from) {
  for (const std::span<std::byte> buffer : into) Add(buffer.data(), buffer.size());
}

DiskIo::DiskIo(IoClass io_class, DiskAddress to, std::span<const std::span<const std::byte>> from)
    : DiskIo(Kind::kWrite, io_class, to) {
  // The kernel only reads the buffers, but iovec has no const.
  for (const std::span<const std::byte> buffer : from) {
    Add(const_cast<std::byte*>(buffer.data()), buffer.size());
  }
}

void DiskIo::Add(void* data, size_t bytes) {
  KVT_CHECK(buffers_.size() < kMaxBuffersPerIo);
  KVT_CHECK(bytes > 0 && bytes % kBlockAlignment == 0);
  KVT_CHECK(reinterpret_cast<uintptr_t>(data) % kBlockAlignment == 0);
  buffers_.push_back({.iov_base = data, .iov_len = bytes});
  bytes_ += bytes;
}

absl::Status DiskIo::Failure(absl::string_view what) const {
  return absl::UnavailableError(
      absl::StrCat(kind_ == Kind::kRead ? "read" : "write", " of segment ",
                   static_cast<uint32_t>(address_.segment), " at ", address_.offset, ": ", what));
}

std::vector<std::unique_ptr<DiskIo>> DiskIo::Split(std::unique_ptr<DiskIo> io) {
  const auto join = std::make_shared<Join>(io->buffers_.size(), std::move(io->done));
  std::vector<std::unique_ptr<DiskIo>> parts;
  DiskAddress address = io->address_;
  for (const iovec& buffer : io->buffers_) {
    std::unique_ptr<DiskIo> part(new DiskIo(io->kind_, io->class_, address));
    part->Add(buffer.iov_base, buffer.iov_len);
    part->done = [join](const absl::Status& status) { join->Ended(status); };
    address.offset += buffer.iov_len;
    parts.push_back(std::move(part));
  }
  return parts;
}

IoBatch::IoBatch(std::unique_ptr<DiskIo> first) : offset_(first->offset()) {
  Add(std::move(first));
}

bool IoBatch::Takes(const DiskIo& next) const {
  const DiskIo& first = *members_.front();
  return next.kind() == first.kind() && next.io_class() == first.io_class() &&
         next.segment() == first.segment() && next.offset() == first.offset() + bytes_ &&
         bytes_ + next.bytes() <= kMaxBatchBytes &&
         buffers_.size() + next.buffers().size() <= kMaxBatchBuffers;
}

void IoBatch::Add(std::unique_ptr<DiskIo> next) {
  buffers_.insert(buffers_.end(), next->buffers().begin(), next->buffers().end());
  bytes_ += next->bytes();
  members_.push_back(std::move(next));
}

IoBatch::Next IoBatch::Transferred(int64_t result) {
  const DiskIo& first = *members_.front();
  if (result == -EINTR || result == -EAGAIN) return Next::kAgain;
  if (result == -ENOSPC || result == -EDQUOT) {
    status_ = absl::ResourceExhaustedError(first.Failure("the file system is full").message());
    return Next::kFinished;
  }
  if (result < 0) {
    status_ = first.Failure(std::strerror(static_cast<int>(-result)));
    return Next::kFinished;
  }
  if (result == 0) {
    status_ = first.Failure("the file ends here");
    return Next::kFinished;
  }
  offset_ += static_cast<uint64_t>(result);
  auto left = static_cast<size_t>(result);
  while (left > 0) {
    KVT_CHECK(first_ < buffers_.size());
    iovec& buffer = buffers_[first_];
    const size_t step = std::min(left, buffer.iov_len);
    buffer.iov_base = static_cast<char*>(buffer.iov_base) + step;
    buffer.iov_len -= step;
    left -= step;
    if (buffer.iov_len > 0) break;
    ++first_;
  }
  return first_ == buffers_.size() ? Next::kFinished : Next::kAgain;
}

std::vector<std::unique_ptr<IoBatch>> IoBatch::Finish() {
  std::vector<std::unique_ptr<IoBatch>> again;
  for (std::unique_ptr<DiskIo>& member : members_) {
    if (!status_.ok() && members_.size() > 1) {
      again.push_back(std::make_unique<IoBatch>(std::move(member)));
      continue;
    }
    DiskIo::Done done = std::move(member->done);
    done(status_);
  }
  return again;
}

}  // namespace kvtier
