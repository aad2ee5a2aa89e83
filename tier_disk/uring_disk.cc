#include "tier_disk/uring_disk.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

absl::Status Refused(absl::string_view what, int error) {
  return absl::UnavailableError(absl::StrCat("io_uring: ", what, ": ", std::strerror(error)));
}

void Wake(int event) {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the ring thread is awake anyway.
  [[maybe_unused]] const ssize_t written = write(event, &one, sizeof(one));
}

}  // namespace

absl::StatusOr<std::unique_ptr<UringDisk>> UringDisk::Open(Executor* executor,
                                                           std::span<const int> files,
                                                           uint64_t segment_bytes) {
  std::unique_ptr<UringDisk> disk(new UringDisk(executor, files, segment_bytes));
  KVT_RETURN_IF_ERROR(disk->Start(files));
  return disk;
}

UringDisk::UringDisk(Executor* executor, std::span<const int> files, uint64_t segment_bytes)
    : QueuedDisk(executor, static_cast<uint32_t>(files.size()), segment_bytes) {}

absl::Status UringDisk::Start(std::span<const int> files) {
  wake_ = eventfd(0, EFD_CLOEXEC);
  if (wake_ < 0) return Refused("eventfd", errno);
  // The ring belongs to the thread that makes it (SINGLE_ISSUER).
  absl::Status status;
  absl::Notification tried;
  thread_ = std::thread([&, this] {
    status = MakeRing(files);
    const bool made = status.ok();
    tried.Notify();  // From here on `status`, `files` and `tried` are gone.
    if (made) Loop();
    if (ring_ready_) io_uring_queue_exit(&ring_);
  });
  pthread_setname_np(thread_.native_handle(), "disk-ring");
  tried.WaitForNotification();
  return status;
}

absl::Status UringDisk::MakeRing(std::span<const int> files) {
  // One thread submits and reaps, so completions need not interrupt it. Kernels
  // before 6.1 do not know these flags.
  int result = -EINVAL;
  for (const unsigned flags : {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, 0U}) {
    result = io_uring_queue_init(kUringDepth, &ring_, flags);
    if (result != -EINVAL) break;
  }
  if (result < 0) return Refused("setup", -result);
  ring_ready_ = true;
  result = io_uring_register_files(&ring_, files.data(), static_cast<unsigned>(files.size()));
  if (result < 0) return Refused("registering the segment files", -result);
  return absl::OkStatus();
}

UringDisk::~UringDisk() {
  if (thread_.joinable()) {
    {
      absl::MutexLock lock(&mu_);
      stopping_ = true;
    }
    Wake(wake_);
    thread_.join();
  }
  if (wake_ >= 0) close(wake_);
}

void UringDisk::Submit(std::unique_ptr<DiskIo> io) {
  bool first = false;
  {
    absl::MutexLock lock(&mu_);
    first = queue_.empty();
    queue_.push_back(std::move(io));
  }
  // One wake empties the whole queue.
  if (first) Wake(wake_);
}

void UringDisk::Loop() {
  ListenForWake();
  while (FillRing()) {
    const int result = io_uring_submit_and_wait(&ring_, 1);
    // EAGAIN and EBUSY: the kernel is short of memory for now. What was not taken
    // stays in the ring and goes with the next submission.
    KVT_CHECK(result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY);
    Reap();
  }
}

bool UringDisk::FillRing() {
  while (true) {
    std::unique_ptr<DiskIo> io;
    {
      absl::MutexLock lock(&mu_);
      if (queue_.empty()) return !stopping_ || in_ring_ > 0;
      if (in_ring_ == kUringDepth - 1) return true;  // One entry is the wake's.
      io = std::move(queue_.front());
      queue_.pop_front();
    }
    ++in_ring_;
    Prepare(std::move(io));
  }
}

void UringDisk::Prepare(std::unique_ptr<DiskIo> io) {
  io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
  KVT_CHECK(entry != nullptr);  // in_ring_ bounds them.
  const auto file = static_cast<int>(io->segment());
  const std::span<const iovec> buffers = io->buffers();
  const auto count = static_cast<unsigned>(buffers.size());
  if (io->kind() == DiskIo::Kind::kRead) {
    io_uring_prep_readv(entry, file, buffers.data(), count, io->offset());
  } else {
    io_uring_prep_writev(entry, file, buffers.data(), count, io->offset());
  }
  entry->flags |= IOSQE_FIXED_FILE;
  io_uring_sqe_set_data(entry, io.release());  // Taken back in Reap().
}

void UringDisk::ListenForWake() {
  io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
  KVT_CHECK(entry != nullptr);
  io_uring_prep_read(entry, wake_, &wake_count_, sizeof(wake_count_), 0);
  io_uring_sqe_set_data(entry, nullptr);
}

void UringDisk::Reap() {
  io_uring_cqe* completion = nullptr;
  while (io_uring_peek_cqe(&ring_, &completion) == 0 && completion != nullptr) {
    std::unique_ptr<DiskIo> io(static_cast<DiskIo*>(io_uring_cqe_get_data(completion)));
    const int result = completion->res;
    io_uring_cqe_seen(&ring_, completion);
    if (io == nullptr) {
      ListenForWake();
      continue;
    }
    if (io->Transferred(result) == DiskIo::Next::kAgain) {
      Prepare(std::move(io));
      continue;
    }
    --in_ring_;
    DiskIo::Done done = std::move(io->done);
    done(io->status());
  }
}

}  // namespace kvtier
