// Implements DiskTier's scrub: one record at a time, read after all other I/O and verified as by a
// get. Reads that meet a reclaim or an erase are repeated or dropped; nothing waits for the scrub.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/log.h"
#include "tier_disk/disk_state.h"
#include "tier_disk/io/page_buffer.h"

namespace kvtier {
namespace {

// A record moves only when its segment is reclaimed; two moves during one read are rare.
constexpr int kMaxReadsPerRecord = 3;

// Returns a segment that differs after every start, as opening draws new generations.
uint32_t FirstSegment(const SegmentLog& log, uint32_t segments) {
  uint64_t newest = 0;
  for (uint32_t i = 0; i < segments; ++i) {
    newest = std::max(newest, log.generation(SegmentId{i}));
  }
  // Fibonacci hashing: consecutive generations are far from each other.
  return static_cast<uint32_t>((newest * 0x9e3779b97f4a7c15U >> 32) % segments);
}

// Logs a pass with damage or errors. Each damaged record was logged before, as by a get; a clean
// pass is not logged.
void LogIfBad(const ScrubPass& pass) {
  const ScrubCounts& counts = pass.counts;
  if (counts.damaged == 0 && counts.errors == 0) return;
  Log(LogLevel::kWarning,
      absl::StrCat("disk: of ", counts.records, " records verified, ", counts.damaged,
                   " were damaged and ", counts.errors, " could not be read"));
}

}  // namespace

Task<Scrub::Outcome> DiskTier::State::ScrubRecord(IoClass io_class, DiskEntry entry,
                                                  std::span<std::byte> slot) {
  for (int reads = 0; reads < kMaxReadsPerRecord; ++reads) {
    const absl::StatusOr<PayloadSum> sum = co_await ReadRecord(io_class, entry, slot);
    if (sum.ok()) co_return Scrub::Outcome::kVerified;
    if (absl::IsDataLoss(sum.status())) co_return Scrub::Outcome::kDamaged;
    if (absl::IsResourceExhausted(sum.status())) co_return Scrub::Outcome::kBusy;
    if (!absl::IsNotFound(sum.status())) co_return Scrub::Outcome::kUnreadable;
    // The block moved during the read. A record of another length was put again under the same key:
    // it is not the one to verify.
    const std::optional<DiskEntry> now_at = index.Find(entry.block.key);
    if (!now_at || now_at->block.length != entry.block.length) break;
    entry = *now_at;
  }
  co_return Scrub::Outcome::kGone;
}

Task<void> DiskTier::RunScrub(uint64_t bytes_per_second) {
  State& state = *state_;
  KVT_CHECK(state.log.has_value() && !state.scrub.has_value());
  const uint32_t segments = state.disk->segment_count();
  const Scrub::Options options{.segments = segments,
                               .first_segment = FirstSegment(*state.log, segments),
                               .bytes_per_second = bytes_per_second};
  state.scrub.emplace(options, state.executor->Now());
  std::optional<PageBuffer> buffer;  // Fits the largest record of the pass so far.
  while (!state.scrub_stopped) {
    const auto wake = std::make_shared<Event>(state.executor);
    state.scrub_wake = wake;
    const bool woken = co_await wake->WaitUntil(state.scrub->due());
    if (woken) continue;
    const std::optional<DiskEntry> entry = state.scrub->Next(state.index, state.executor->Now());
    if (!entry) {
      buffer.reset();
      LogIfBad(state.scrub->report().pass);
      continue;
    }
    const uint64_t bytes = SlotBytes(entry->block.length);
    if (!buffer || buffer->bytes().size() < bytes) buffer.emplace(bytes);
    const std::span<std::byte> slot = buffer->bytes().first(bytes);
    const Scrub::Outcome outcome = co_await state.ScrubRecord(IoClass::kScrub, *entry, slot);
    state.scrub->Done(*entry, outcome, state.executor->Now());
  }
}

void DiskTier::StopScrub() {
  state_->scrub_stopped = true;
  if (state_->scrub_wake != nullptr) state_->scrub_wake->Set();
}

absl::Status DiskTier::VerifyAll(uint64_t bytes_per_second) {
  State& state = *state_;
  if (!state.scrub || state.scrub_stopped) {
    return absl::FailedPreconditionError("the disk is not open, or being closed");
  }
  if (!state.scrub->RequestPass(bytes_per_second, state.executor->Now())) {
    return absl::AlreadyExistsError("every record of the disk is being verified already");
  }
  state.scrub_wake->Set();
  return absl::OkStatus();
}

ScrubReport DiskTier::scrub() const {
  return state_->scrub ? state_->scrub->report() : ScrubReport();
}

}  // namespace kvtier
