#include "tier_disk/pread_disk.h"

#include <pthread.h>
#include <sys/uio.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kvtier {

PreadDisk::PreadDisk(Executor* executor, std::span<const int> files, uint64_t segment_bytes)
    : QueuedDisk(executor, static_cast<uint32_t>(files.size()), segment_bytes),
      files_(files.begin(), files.end()) {
  for (int i = 0; i < kPreadThreads; ++i) {
    threads_.emplace_back([this] { Loop(); });
    pthread_setname_np(threads_.back().native_handle(), absl::StrCat("disk-io-", i).c_str());
  }
}

PreadDisk::~PreadDisk() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void PreadDisk::Submit(std::unique_ptr<DiskIo> io) {
  absl::MutexLock lock(&mu_);
  queue_.push_back(std::move(io));
}

void PreadDisk::Loop() {
  const auto due = [this]()
                       ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !queue_.empty() || stopping_; };
  while (true) {
    std::unique_ptr<DiskIo> io;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&due));
      if (queue_.empty()) return;
      io = std::move(queue_.front());
      queue_.pop_front();
    }
    Transfer(io.get());
    DiskIo::Done done = std::move(io->done);
    done(io->status());
  }
}

void PreadDisk::Transfer(DiskIo* io) const {
  const int file = files_[static_cast<size_t>(io->segment())];
  int64_t result = 0;
  do {
    const std::span<const iovec> buffers = io->buffers();
    const auto count = static_cast<int>(buffers.size());
    const auto offset = static_cast<off_t>(io->offset());
    result = io->kind() == DiskIo::Kind::kRead ? preadv(file, buffers.data(), count, offset)
                                               : pwritev(file, buffers.data(), count, offset);
    if (result < 0) result = -errno;
  } while (io->Transferred(result) == DiskIo::Next::kAgain);
}

}  // namespace kvtier
