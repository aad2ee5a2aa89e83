#include "tests/testing/sim_disk.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/space.h"

namespace kvtier::testing {
namespace {

constexpr uint64_t kSectorBytes = 512;  // A device writes a sector whole or not at all.

// PendingWrite is a write in progress. If it is destroyed before Land() (the process died), it is
// torn.
class PendingWrite {
 public:
  PendingWrite(SimDiskMedia* media, DiskAddress to,
               std::span<const std::span<const std::byte>> from)
      : media_(media), to_(to) {
    for (const auto& buffer : from) bytes_.insert(bytes_.end(), buffer.begin(), buffer.end());
  }
  PendingWrite(const PendingWrite&) = delete;
  PendingWrite& operator=(const PendingWrite&) = delete;
  ~PendingWrite() {
    if (!landed_) media_->WriteTorn(to_, bytes_);
  }
  absl::Status Land();
  uint64_t size() const { return bytes_.size(); }

 private:
  SimDiskMedia* const media_;
  const DiskAddress to_;
  std::vector<std::byte> bytes_;  // A copy, because the buffers die with the process.
  bool landed_ = false;
};

absl::Status PendingWrite::Land() {
  landed_ = true;
  const SimDiskFaults& faults = media_->faults;
  if (media_->Draw(faults.full)) return absl::ResourceExhaustedError("simulated disk is full");
  if (media_->Draw(faults.write_error)) {
    ++media_->counts.errors;
    media_->WriteTorn(to_, bytes_);
    return absl::UnavailableError("simulated write error");
  }
  if (media_->Draw(faults.lost)) {
    ++media_->counts.lost;
    return absl::OkStatus();
  }
  DiskAddress to = to_;
  if (media_->Draw(faults.misdirect)) {
    const uint64_t pages = (media_->segment_bytes() - bytes_.size()) / kBlockAlignment + 1;
    to.offset = media_->Below(pages) * kBlockAlignment;
    if (to.offset != to_.offset) ++media_->counts.misdirected;
  }
  media_->WriteRaw(to, bytes_);
  if (media_->Draw(faults.flip)) {
    ++media_->counts.flips;
    media_->FlipBit(to, media_->Below(bytes_.size() * 8));
  }
  return absl::OkStatus();
}

}  // namespace

SimDiskMedia::SimDiskMedia(uint32_t segments, uint64_t segment_bytes, uint64_t seed)
    : segment_bytes_(segment_bytes), segments_(segments), random_(seed) {
  KVT_CHECK(segment_bytes % kBlockAlignment == 0);
}

std::span<std::byte> SimDiskMedia::Bytes(DiskAddress at, uint64_t bytes) {
  const auto index = static_cast<size_t>(at.segment);
  KVT_CHECK(index < segments_.size());
  KVT_CHECK(at.offset <= segment_bytes_ && bytes <= segment_bytes_ - at.offset);
  std::vector<std::byte>& segment = segments_[index];
  segment.resize(segment_bytes_);
  return std::span(segment).subspan(at.offset, bytes);
}

std::vector<std::byte> SimDiskMedia::ReadRaw(DiskAddress from, uint64_t bytes) const {
  const auto index = static_cast<size_t>(from.segment);
  KVT_CHECK(index < segments_.size());
  KVT_CHECK(from.offset <= segment_bytes_ && bytes <= segment_bytes_ - from.offset);
  const std::vector<std::byte>& segment = segments_[index];
  if (segment.empty()) return std::vector<std::byte>(bytes);
  const auto begin = segment.begin() + static_cast<ptrdiff_t>(from.offset);
  return {begin, begin + static_cast<ptrdiff_t>(bytes)};
}

void SimDiskMedia::WriteRaw(DiskAddress to, std::span<const std::byte> bytes) {
  std::copy(bytes.begin(), bytes.end(), Bytes(to, bytes.size()).begin());
}

void SimDiskMedia::FlipBit(DiskAddress at, uint64_t bit) {
  Bytes({at.segment, at.offset + bit / 8}, 1)[0] ^= std::byte{1} << (bit % 8);
}

void SimDiskMedia::WriteTorn(DiskAddress to, std::span<const std::byte> bytes) {
  ++counts.torn;
  for (uint64_t at = 0; at < bytes.size(); at += kSectorBytes) {
    if (Draw(0.5)) continue;
    WriteRaw({to.segment, to.offset + at}, bytes.subspan(at, kSectorBytes));
  }
}

bool SimDiskMedia::Draw(double chance) {
  if (chance <= 0) return false;
  // A double holds 53 bits exactly.
  return static_cast<double>(random_() >> 11) * 0x1p-53 < chance;
}

uint64_t SimDiskMedia::Below(uint64_t bound) { return random_() % bound; }

Task<void> SimDisk::Wait(uint64_t bytes) {
  const SimDiskFaults& faults = media_->faults;
  absl::Duration takes =
      faults.latency + absl::Seconds(static_cast<double>(bytes) / faults.bytes_per_second);
  if (media_->Draw(faults.spike)) takes += faults.spike_latency;
  co_await SleepUntil(executor_, executor_->Now() + takes);
  while (const std::shared_ptr<Event> stalled = stalled_) {
    co_await stalled->WaitUntil(absl::InfiniteFuture());
  }
}

Task<absl::Status> SimDisk::Read(IoClass /*io_class*/, DiskAddress from,
                                 std::span<const std::span<std::byte>> into) {
  uint64_t bytes = 0;
  for (const auto& buffer : into) bytes += buffer.size();
  co_await Wait(bytes);
  const bool failed = media_->Draw(media_->faults.read_error);
  for (const auto& buffer : into) {
    if (failed) {
      std::fill(buffer.begin(), buffer.end(), std::byte{0xe1});
      continue;
    }
    const std::vector<std::byte> stored = media_->ReadRaw(from, buffer.size());
    std::copy(stored.begin(), stored.end(), buffer.begin());
    from.offset += buffer.size();
  }
  if (!failed) co_return absl::OkStatus();
  ++media_->counts.errors;
  co_return absl::UnavailableError("simulated read error");
}

Task<absl::Status> SimDisk::Write(IoClass /*io_class*/, DiskAddress to,
                                  std::span<const std::span<const std::byte>> from) {
  PendingWrite write(media_, to, from);
  co_await Wait(write.size());
  co_return write.Land();
}

void SimDisk::Stall() {
  if (stalled_ == nullptr) stalled_ = std::make_shared<Event>(executor_);
}

void SimDisk::Resume() {
  if (const std::shared_ptr<Event> stalled = std::exchange(stalled_, nullptr)) stalled->Set();
}

}  // namespace kvtier::testing
