#include "tier_disk/io/uring_disk.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
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

// The kernel takes at most this much as one registered buffer.
constexpr size_t kMaxRegionBytes = size_t{1} << 30;

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
    Wake();
    thread_.join();
  }
  if (wake_ >= 0) close(wake_);
}

void UringDisk::Wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the ring thread is awake anyway.
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
}

absl::Status UringDisk::RegisterBuffers(std::span<const std::span<std::byte>> regions) {
  Registration registration;
  for (std::span<std::byte> region : regions) {
    while (!region.empty()) {
      const std::span<std::byte> part = region.first(std::min(region.size(), kMaxRegionBytes));
      registration.regions.push_back({.iov_base = part.data(), .iov_len = part.size()});
      region = region.subspan(part.size());
    }
  }
  {
    absl::MutexLock lock(&mu_);
    KVT_CHECK(registering_ == nullptr && regions_.empty());
    registering_ = &registration;
  }
  Wake();
  registration.done.WaitForNotification();
  return registration.status;
}

std::optional<int> UringDisk::RegionOf(const iovec& buffer) const {
  const auto* const begin = static_cast<const char*>(buffer.iov_base);
  for (size_t i = 0; i < regions_.size(); ++i) {
    const auto* const region = static_cast<const char*>(regions_[i].iov_base);
    if (begin >= region && begin + buffer.iov_len <= region + regions_[i].iov_len) {
      return static_cast<int>(i);
    }
  }
  return std::nullopt;
}

void UringDisk::Submit(std::unique_ptr<DiskIo> io) {
  std::vector<std::unique_ptr<DiskIo>> parts;
  const std::span<const iovec> buffers = io->buffers();
  const bool has_fixed = std::any_of(buffers.begin(), buffers.end(), [this](const iovec& buffer) {
    return buffer.iov_len >= kMinFixedBytes && IsFixed(buffer);
  });
  if (has_fixed && buffers.size() > 1) {
    parts = DiskIo::Split(std::move(io));
  } else {
    parts.push_back(std::move(io));
  }
  bool wake = false;
  {
    absl::MutexLock lock(&mu_);
    for (std::unique_ptr<DiskIo>& part : parts) queue_.Push(std::move(part));
    // One wake empties the whole queue; what may not start yet is looked at again when
    // something else ends.
    wake = !woken_ && queue_.Ready();
    woken_ = woken_ || wake;
  }
  if (wake) Wake();
}

// No wake: what may start does so already.
void UringDisk::Hasten(DiskAddress from, uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  queue_.Hasten(from, bytes);
}

void UringDisk::Loop() {
  ListenForWake();
  while (FillRing()) {
    const int result = io_uring_submit_and_wait(&ring_, 1);
    // EAGAIN and EBUSY: the kernel is short of memory for now. What was not taken
    // stays in the ring and goes with the next submission.
    KVT_CHECK(result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY);
    Reap();
    RegisterPending();
  }
}

void UringDisk::RegisterPending() {
  Registration* registration = nullptr;
  {
    absl::MutexLock lock(&mu_);
    registration = std::exchange(registering_, nullptr);
  }
  if (registration == nullptr) return;
  const int result = io_uring_register_buffers(&ring_, registration->regions.data(),
                                               static_cast<unsigned>(registration->regions.size()));
  if (result < 0) {
    registration->status = Refused("registering the arenas", -result);
  } else {
    regions_ = registration->regions;
  }
  registration->done.Notify();
}

bool UringDisk::FillRing() {
  while (true) {
    std::unique_ptr<IoBatch> batch;
    {
      absl::MutexLock lock(&mu_);
      batch = queue_.Pop();
      if (batch == nullptr) return !stopping_ || queue_.running() > 0 || !queue_.empty();
    }
    Prepare(std::move(batch));
  }
}

void UringDisk::Prepare(std::unique_ptr<IoBatch> batch) {
  io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
  KVT_CHECK(entry != nullptr);  // The queue bounds them.
  const auto file = static_cast<int>(batch->segment());
  const std::span<const iovec> buffers = batch->buffers();
  const bool reads = batch->kind() == DiskIo::Kind::kRead;
  const std::optional<int> region = buffers.size() == 1 ? RegionOf(buffers[0]) : std::nullopt;
  const uint64_t at = batch->offset();
  if (region.has_value()) {
    void* const data = buffers[0].iov_base;
    const auto bytes = static_cast<unsigned>(buffers[0].iov_len);
    if (reads) {
      io_uring_prep_read_fixed(entry, file, data, bytes, at, *region);
    } else {
      io_uring_prep_write_fixed(entry, file, data, bytes, at, *region);
    }
  } else {
    const auto prepare = reads ? io_uring_prep_readv : io_uring_prep_writev;
    prepare(entry, file, buffers.data(), static_cast<unsigned>(buffers.size()), at);
  }
  entry->flags |= IOSQE_FIXED_FILE;
  io_uring_sqe_set_data(entry, batch.release());  // Taken back in Reap().
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
    std::unique_ptr<IoBatch> batch(static_cast<IoBatch*>(io_uring_cqe_get_data(completion)));
    const int result = completion->res;
    io_uring_cqe_seen(&ring_, completion);
    if (batch == nullptr) {
      {
        absl::MutexLock lock(&mu_);
        woken_ = false;
      }
      ListenForWake();
    } else if (batch->Transferred(result) == IoBatch::Next::kAgain) {
      Prepare(std::move(batch));
    } else {
      End(std::move(batch));
    }
  }
}

void UringDisk::End(std::unique_ptr<IoBatch> batch) {
  {
    // Before the members hear of it: they may push again at once, or stop us.
    absl::MutexLock lock(&mu_);
    queue_.Ended(*batch);
  }
  for (std::unique_ptr<IoBatch>& alone : batch->Finish()) {
    absl::MutexLock lock(&mu_);
    queue_.PushAgain(std::move(alone));
  }
}

}  // namespace kvtier
