#include "tier_disk/io/pread_disk.h"

#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kvtier {

PreadDisk::PreadDisk(Executor* executor, std::span<const int> files, uint64_t segment_bytes,
                     Durability durability)
    : QueuedDisk(executor, static_cast<uint32_t>(files.size()), segment_bytes,
                 // Each write is synced already; a sync beside it could take its error away.
                 durability == Durability::kDirect ? FlushBy(files.front()) : nullptr),
      files_(files.begin(), files.end()),
      durability_(durability) {
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
  queue_.Push(std::move(io));
}

void PreadDisk::MoveToForeground(DiskAddress from, uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  queue_.MoveToForeground(from, bytes);
}

void PreadDisk::Loop() {
  const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return queue_.Ready() || (stopping_ && queue_.empty());
  };
  while (true) {
    std::unique_ptr<IoBatch> batch;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&due));
      batch = queue_.Pop();
      if (batch == nullptr) return;
    }
    Transfer(batch.get());
    {
      // Ended() comes before the members are told, because they may push again at once, or stop
      // this disk.
      absl::MutexLock lock(&mu_);
      queue_.Ended(*batch);
    }
    for (std::unique_ptr<IoBatch>& alone : batch->Finish()) {
      absl::MutexLock lock(&mu_);
      queue_.PushAgain(std::move(alone));
    }
  }
}

void PreadDisk::Transfer(IoBatch* batch) const {
  const int file = files_[static_cast<size_t>(batch->segment())];
  int64_t result = 0;
  do {
    const std::span<const iovec> buffers = batch->buffers();
    const auto count = static_cast<int>(buffers.size());
    const auto offset = static_cast<off_t>(batch->offset());
    result = batch->kind() == DiskIo::Kind::kRead ? preadv(file, buffers.data(), count, offset)
                                                  : pwritev(file, buffers.data(), count, offset);
    const bool sync = batch->kind() == DiskIo::Kind::kWrite && result > 0 &&
                      durability_ == Durability::kSyncEachWrite;
    if (sync && fdatasync(file) != 0) result = -1;
    if (result < 0) result = -errno;
  } while (batch->Transferred(result) == IoBatch::Next::kAgain);
}

}  // namespace kvtier
