#include "tier_disk/io/watched_disk.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tier_disk/io/page_buffer.h"

namespace kvtier {
namespace {

// 2^64 divided by the golden ratio: its multiples are spread evenly, so consecutive probes try
// different places.
constexpr uint64_t kProbeStride = 0x9e3779b97f4a7c15;

template <typename Buffer>
uint64_t BytesOf(std::span<const Buffer> buffers) {
  uint64_t bytes = 0;
  for (const Buffer& buffer : buffers) bytes += buffer.size();
  return bytes;
}

IoOutcome OutcomeOf(const absl::Status& status) {
  if (status.ok()) return IoOutcome::kOk;
  return absl::IsResourceExhausted(status) ? IoOutcome::kFull : IoOutcome::kError;
}

}  // namespace

WatchedDisk::PendingIo::PendingIo(WatchedDisk* disk, uint64_t bytes)
    : disk_(disk),
      bytes_(bytes),
      backlog_bytes_(disk->backlog_bytes_ += bytes),
      started_(disk->io_starts_.insert(disk->io_starts_.end(), disk->executor_->Now())) {
  disk_->SetTimer();
}

WatchedDisk::PendingIo::~PendingIo() {
  disk_->backlog_bytes_ -= bytes_;
  disk_->io_starts_.erase(started_);
}

IoReport WatchedDisk::PendingIo::Report(const absl::Status& status) const {
  return {.outcome = OutcomeOf(status),
          .latency = disk_->executor_->Now() - *started_,
          .bytes = bytes_,
          .backlog_bytes = backlog_bytes_};
}

WatchedDisk::~WatchedDisk() {
  if (timer_) executor_->Cancel(*timer_);
}

absl::Status WatchedDisk::Refusal() const {
  return absl::UnavailableError(absl::StrCat("the disk is ", health_.Describe()));
}

void WatchedDisk::Ended(const absl::Status& status, const PendingIo& io) {
  health_.Record(io.Report(status), executor_->Now());
  TellChange();
}

Task<absl::Status> WatchedDisk::Read(IoClass io_class, DiskAddress from,
                                     std::span<const std::span<std::byte>> into) {
  if (!health_.healthy()) co_return Refusal();
  const PendingIo io(this, BytesOf(into));
  const absl::Status status = co_await disk_->Read(io_class, from, into);
  Ended(status, io);
  co_return status;
}

Task<absl::Status> WatchedDisk::Write(IoClass io_class, DiskAddress to,
                                      std::span<const std::span<const std::byte>> from) {
  if (!health_.healthy()) co_return Refusal();
  const PendingIo io(this, BytesOf(from));
  written_bytes_ += BytesOf(from);
  const absl::Status status = co_await disk_->Write(io_class, to, from);
  Ended(status, io);
  co_return status;
}

void WatchedDisk::CommitFailed(const absl::Status& why) {
  if (absl::IsNotFound(why)) {
    health_.Retire(std::string(why.message()));
  } else if (absl::IsUnavailable(why)) {
    health_.Record({.outcome = IoOutcome::kError, .latency = absl::ZeroDuration()},
                   executor_->Now());
  }
  TellChange();
}

void WatchedDisk::TellChange() {
  SetTimer();
  if (health_.healthy() == told_healthy_) return;
  told_healthy_ = health_.healthy();
  if (on_change_) on_change_();
}

void WatchedDisk::SetTimer() {
  if (timer_) return;
  const absl::Time now = executor_->Now();
  absl::Time due = absl::InfiniteFuture();
  if (!io_starts_.empty()) {
    due = now + kWatchInterval;
  } else if (!health_.healthy()) {
    due = std::max(now, health_.next_probe());
  }
  if (due == absl::InfiniteFuture()) return;
  timer_ = executor_->PostAt(due, [this, due] {
    timer_.reset();
    Check(due);
  });
}

void WatchedDisk::Check(absl::Time due) {
  const absl::Time now = executor_->Now();
  if (!io_starts_.empty()) {
    // If this timer itself is late (the process or the machine was stopped), ends of I/Os may still
    // be queued, so the disk need not have stalled: the next timer checks again.
    if (now - due < kWatchInterval) health_.Outstanding(io_starts_.front(), now);
  } else if (!health_.healthy() && health_.next_probe() <= now) {
    // Probes only when no I/O is in flight: an I/O that does not end counts as a bad probe already.
    health_.BeginProbe(now);
    scope_->Spawn(Probe());
  }
  TellChange();
}

Task<void> WatchedDisk::Probe() {
  const uint64_t bytes = std::min(kProbeBytes, disk_->segment_bytes());
  const uint64_t places = disk_->segment_bytes() / bytes;
  const uint64_t lot = ++probes_ * kProbeStride;
  const DiskAddress from{.segment = static_cast<SegmentId>((lot >> 32) % disk_->segment_count()),
                         .offset = lot % places * bytes};
  PageBuffer buffer(bytes);
  const std::array<std::span<std::byte>, 1> into = {buffer.bytes()};
  IoReport report;
  {
    const PendingIo io(this, bytes);
    const absl::Status status = co_await disk_->Read(IoClass::kForeground, from, into);
    report = io.Report(status);
  }
  health_.RecordProbe(report, executor_->Now());
  TellChange();
}

}  // namespace kvtier
