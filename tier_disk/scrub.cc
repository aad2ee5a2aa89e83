#include "tier_disk/scrub.h"

#include "core/check.h"
#include "tier_disk/log/record.h"

namespace kvtier {

Scrub::Scrub(const Options& options, absl::Time now)
    : options_(options),
      next_pass_(options.bytes_per_second == 0 ? absl::InfiniteFuture() : now + kFirstScrubAfter),
      segment_(options.first_segment) {
  KVT_CHECK(options.first_segment < options.segments);
}

bool Scrub::RequestPass(uint64_t bytes_per_second, absl::Time now) {
  if (report_.pass.running() && report_.pass.asked) return false;
  Begin(/*asked=*/true, bytes_per_second, now);
  return true;
}

void Scrub::Begin(bool asked, uint64_t bytes_per_second, absl::Time now) {
  pacer_.SetRate(bytes_per_second, now);
  report_.pass = ScrubPass{.number = report_.pass.number + 1,
                           .asked = asked,
                           .began = now,
                           .segments = options_.segments};
  // Lists the segment again, from its first record, so that the pass covers the whole segment.
  listed_ = false;
}

absl::Time Scrub::due() const { return report_.pass.running() ? pacer_.ready() : next_pass_; }

std::optional<DiskEntry> Scrub::Next(const RecordIndex& index, absl::Time now) {
  KVT_CHECK(due() <= now);
  ScrubPass& pass = report_.pass;
  if (!pass.running()) Begin(/*asked=*/false, options_.bytes_per_second, now);
  while (pass.segments_done < pass.segments) {
    if (!listed_) {
      keys_ = index.InSegment(SegmentId{segment_});
      next_key_ = 0;
      listed_ = true;
    }
    while (next_key_ < keys_.size()) {
      const std::optional<DiskEntry> entry = index.Find(keys_[next_key_++]);
      // The block was erased or moved since: the pass meets it at its new place, or the reclaim
      // verified it.
      if (!entry || entry->place.segment != SegmentId{segment_}) continue;
      pacer_.Spend(RecordBytes(entry->block.length), now);
      reading_ = pass.number;
      return entry;
    }
    listed_ = false;
    segment_ = (segment_ + 1) % options_.segments;
    ++pass.segments_done;
  }
  keys_ = {};
  pass.ended = now;
  ++report_.passes;
  if (options_.bytes_per_second > 0) next_pass_ = now + kScrubRest;
  return std::nullopt;
}

void Scrub::Done(const DiskEntry& entry, Outcome outcome, absl::Time now) {
  const bool same_pass = report_.pass.running() && report_.pass.number == reading_;
  if (outcome == Outcome::kGone) return;
  if (outcome == Outcome::kBusy) {
    if (same_pass) --next_key_;
    pacer_.NotBefore(now + kScrubRetryAfter);
    return;
  }
  for (ScrubCounts* counts : {&report_.total, &report_.pass.counts}) {
    if (counts == &report_.pass.counts && !same_pass) continue;
    ++counts->records;
    counts->bytes += RecordBytes(entry.block.length);
    counts->damaged += outcome == Outcome::kDamaged ? 1 : 0;
    counts->errors += outcome == Outcome::kUnreadable ? 1 : 0;
  }
}

}  // namespace kvtier
