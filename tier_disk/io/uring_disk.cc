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

// Maximum bytes that the kernel registers as one buffer.
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
    : QueuedDisk(executor, static_cast<uint32_t>(files.size()), segment_bytes,
                 FlushBy(files.front())) {}

absl::Status UringDisk::Start(std::span<const int> files) {
  wake_ = eventfd(0, EFD_CLOEXEC);
  if (wake_ < 0) return Refused("eventfd", errno);
  // The ring belongs to the thread that makes it (SINGLE_ISSUER).
  absl::Status status;
  absl::Notification tried;
  thread_ = std::thread([&, this] {
    status = MakeRing(files);
    const bool made = status.ok();
    tried.Notify();  // `status`, `files` and `tried` are gone from here on.
    if (made) Loop();
    if (ring_ready_) io_uring_queue_exit(&ring_);
  });
  pthread_setname_np(thread_.native_handle(), "disk-ring");
  tried.WaitForNotification();
  return status;
}

absl::Status UringDisk::MakeRing(std::span<const int> files) {
  // One thread submits and reaps, so completions need not interrupt it. Kernels before 6.1 do not
  // know these flags.
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
  // Fails only when the counter is full, and the ring thread is then awake anyway.
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
}

Task<absl::Status> UringDisk::Change(MemoryChange change) {
  co_return co_await AwaitCallback<absl::Status>(
      executor(), [this, &change](AwaitCallback<absl::Status>::Done done) {
        change.done = std::move(done);
        {
          absl::MutexLock lock(&mu_);
          changes_.push_back(std::move(change));
        }
        Wake();
      });
}

Task<absl::Status> UringDisk::AddMemory(std::vector<std::span<std::byte>> regions) {
  return Change({.add = std::move(regions)});
}

Task<void> UringDisk::RemoveMemory(std::span<std::byte> region) {
  // A removal cannot fail.
  (co_await Change({.remove = region})).IgnoreError();
}

std::optional<int> UringDisk::RegionOf(const iovec& buffer) const {
  const auto* const begin = static_cast<const char*>(buffer.iov_base);
  auto region = regions_.upper_bound(begin);
  if (region == regions_.begin()) return std::nullopt;
  --region;
  if (begin + buffer.iov_len > region->first + region->second.bytes) return std::nullopt;
  return static_cast<int>(region->second.index);
}

bool UringDisk::HasPinnedPart(std::span<const iovec> buffers) const {
  for (const iovec& buffer : buffers) {
    if (buffer.iov_len >= kMinFixedBytes && RegionOf(buffer).has_value()) return true;
  }
  return false;
}

void UringDisk::Submit(std::unique_ptr<DiskIo> io) {
  bool splits = false;
  if (io->buffers().size() > 1) {
    absl::MutexLock lock(&mu_);
    splits = HasPinnedPart(io->buffers());
  }
  std::vector<std::unique_ptr<DiskIo>> parts;
  if (splits) {
    parts = DiskIo::Split(std::move(io));
  } else {
    parts.push_back(std::move(io));
  }
  bool wake = false;
  {
    absl::MutexLock lock(&mu_);
    for (std::unique_ptr<DiskIo>& part : parts) queue_.Push(std::move(part));
    // One wake empties the whole queue; an I/O that may not start yet is considered again when
    // another one ends.
    wake = !woken_ && queue_.Ready();
    woken_ = woken_ || wake;
  }
  if (wake) Wake();
}

// Does not wake the ring thread: I/Os that may start have started.
void UringDisk::MoveToForeground(DiskAddress from, uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  queue_.MoveToForeground(from, bytes);
}

void UringDisk::Loop() {
  ListenForWake();
  while (FillRing()) {
    const int result = io_uring_submit_and_wait(&ring_, 1);
    // EAGAIN and EBUSY: the kernel is short of memory for now. Entries that it did not take stay in
    // the ring for the next submission.
    KVT_CHECK(result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY);
    Reap();
    ChangeMemory();
  }
}

void UringDisk::ChangeMemory() {
  std::deque<MemoryChange> changes;
  {
    absl::MutexLock lock(&mu_);
    changes.swap(changes_);
  }
  for (MemoryChange& change : changes) {
    absl::Status status;
    if (!change.remove.empty()) Unpin(change.remove);
    for (std::span<std::byte> region : change.add) {
      while (status.ok() && !region.empty()) {
        const std::span<std::byte> part = region.first(std::min(region.size(), kMaxRegionBytes));
        status = Pin(part);
        region = region.subspan(part.size());
      }
    }
    change.done(std::move(status));
  }
}

absl::Status UringDisk::Pin(std::span<std::byte> region) {
  if (!has_regions_) {
    const int made = io_uring_register_buffers_sparse(&ring_, kMaxPinnedRegions);
    if (made < 0) return Refused("cannot make the table of registered memory", -made);
    has_regions_ = true;
    for (unsigned index = kMaxPinnedRegions; index > 0; --index) free_regions_.push_back(index - 1);
  }
  if (free_regions_.empty()) return Refused("registering memory", ENOSPC);
  const unsigned index = free_regions_.back();
  const iovec memory{.iov_base = region.data(), .iov_len = region.size()};
  const __u64 tag = 0;
  const int pinned = io_uring_register_buffers_update_tag(&ring_, index, &memory, &tag, 1);
  if (pinned < 0) return Refused("registering memory", -pinned);
  free_regions_.pop_back();
  absl::MutexLock lock(&mu_);
  regions_[reinterpret_cast<const char*>(region.data())] = {.bytes = region.size(), .index = index};
  return absl::OkStatus();
}

void UringDisk::Unpin(std::span<std::byte> region) {
  std::vector<unsigned> indices;
  {
    absl::MutexLock lock(&mu_);
    const auto* const begin = reinterpret_cast<const char*>(region.data());
    const auto first = regions_.lower_bound(begin);
    const auto last = regions_.lower_bound(begin + region.size());
    for (auto part = first; part != last; ++part) indices.push_back(part->second.index);
    regions_.erase(first, last);
  }
  for (const unsigned index : indices) {
    const iovec none{};
    const __u64 tag = 0;
    // Does not fail for an index of the table; if it fails nevertheless, the index is never reused.
    if (io_uring_register_buffers_update_tag(&ring_, index, &none, &tag, 1) < 0) continue;
    free_regions_.push_back(index);
  }
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
  KVT_CHECK(entry != nullptr);  // The queue bounds the entries.
  const auto file = static_cast<int>(batch->segment());
  const std::span<const iovec> buffers = batch->buffers();
  const bool reads = batch->kind() == DiskIo::Kind::kRead;
  std::optional<int> region;
  if (buffers.size() == 1) {
    absl::MutexLock lock(&mu_);
    region = RegionOf(buffers[0]);
  }
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
  io_uring_sqe_set_data(entry, batch.release());  // Reap() takes it back.
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
    // Ended() comes before the members are told, because they may push again at once, or stop this
    // disk.
    absl::MutexLock lock(&mu_);
    queue_.Ended(*batch);
  }
  for (std::unique_ptr<IoBatch>& alone : batch->Finish()) {
    absl::MutexLock lock(&mu_);
    queue_.PushAgain(std::move(alone));
  }
}

}  // namespace kvtier
