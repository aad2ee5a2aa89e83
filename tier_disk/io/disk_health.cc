#include "tier_disk/io/disk_health.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {
namespace {

// Each window fits the bits of one word.
static_assert(kErrorWindow == 64 && kSlowWindow == 32);
static_assert(kErrorsTooMany <= kErrorWindow && kSlowTooMany <= kSlowWindow);
// The history must have a median before a disk can be found slow, and the slow I/Os that make a
// disk slow must not yet shift the median.
static_assert(kHistoryMinIos > 2 * kSlowTooMany);

}  // namespace

std::string DiskHealth::Describe() const {
  if (healthy()) return "healthy";
  if (state_ == DiskState::kRetired) {
    return absl::StrCat("not used until the agent restarts: ", reason_);
  }
  return absl::StrCat(state_ == DiskState::kProbing ? "probing" : "quarantined", ": ", reason_,
                      "; probes: ", good_probes_, " good in a row, ", bad_probes_, " bad");
}

// Returns whether the latency is long enough to matter. Twenty times a tiny latency is still tiny,
// and a large backlog explains a long one.
bool DiskHealth::IsAboveFloor(const IoReport& report) const {
  const absl::Duration backlog =
      absl::Seconds(static_cast<double>(report.backlog_bytes) / kSlowestBytesPerSecond);
  return report.latency > kSlowFloor + backlog;
}

void DiskHealth::Record(const IoReport& report, absl::Time now) {
  last_end_ = std::max(last_end_, now);
  if (!healthy() || report.outcome == IoOutcome::kFull) return;
  failed_ <<= 1;
  if (report.outcome == IoOutcome::kError) {
    failed_ |= 1;
    const int failed = std::popcount(failed_);
    if (failed < kErrorsTooMany) return;
    Quarantine(absl::StrCat(failed, " of the last ", kErrorWindow, " I/Os failed"), now);
    return;
  }
  const std::optional<absl::Duration> usual = history_.Median(report.bytes);
  history_.Add(report.bytes, report.latency);
  if (!usual || report.latency <= *usual * kSlowFactor || !IsAboveFloor(report)) {
    slow_ <<= 1;
    return;
  }
  // I/Os that waited at the same time saw the same pause.
  if (now - report.latency < last_slow_end_) return;
  last_slow_end_ = now;
  slow_ = slow_ << 1 | 1;
  const int slow = std::popcount(slow_);
  if (slow < kSlowTooMany) return;
  Quarantine(absl::StrCat(slow, " of the last ", kSlowWindow, " I/Os were slow, the latest: ",
                          report.bytes, " bytes in ", absl::FormatDuration(report.latency),
                          ", usually ", absl::FormatDuration(*usual)),
             now);
}

void DiskHealth::Outstanding(absl::Time oldest_start, absl::Time now) {
  const absl::Duration silent = now - std::max(oldest_start, last_end_);
  const absl::Duration age = now - oldest_start;
  if (silent < kSilenceLimit && age < kStallLimit) return;
  if (healthy()) {
    const bool all = silent >= kSilenceLimit;
    Quarantine(absl::StrCat(all ? "no I/O ended for " : "an I/O did not end for ",
                            absl::FormatDuration(all ? silent : age)),
               now);
  } else if (probe_under_way_) {
    FailProbe(now);
  }
}

void DiskHealth::Retire(std::string reason) {
  if (state_ == DiskState::kRetired) return;
  if (healthy()) ++quarantines_;
  state_ = DiskState::kRetired;
  reason_ = std::move(reason);
  next_probe_ = absl::InfiniteFuture();
  probe_under_way_ = false;
}

void DiskHealth::Quarantine(std::string reason, absl::Time now) {
  const bool relapse = quarantines_ > 0 && now - healthy_since_ < kTrustAfter;
  interval_ = relapse ? std::min(interval_ * 2, kMaxProbeInterval) : kFirstProbeAfter;
  state_ = DiskState::kQuarantined;
  reason_ = std::move(reason);
  ++quarantines_;
  next_probe_ = now + interval_;
  good_probes_ = 0;
  bad_probes_ = 0;
}

void DiskHealth::BeginProbe(absl::Time now) {
  KVT_CHECK(!healthy() && next_probe_ <= now);
  state_ = DiskState::kProbing;
  next_probe_ = absl::InfiniteFuture();
  probe_under_way_ = true;
}

void DiskHealth::FailProbe(absl::Time now) {
  state_ = DiskState::kQuarantined;
  probe_under_way_ = false;
  good_probes_ = 0;
  ++bad_probes_;
  interval_ = std::min(interval_ * 2, kMaxProbeInterval);
  next_probe_ = now + interval_;
}

void DiskHealth::RecordProbe(const IoReport& report, absl::Time now) {
  last_end_ = std::max(last_end_, now);
  if (!probe_under_way_) return;
  const std::optional<absl::Duration> usual = history_.Median(report.bytes);
  const bool slow = IsAboveFloor(report) && (!usual || report.latency > *usual * kSlowFactor);
  if (report.outcome == IoOutcome::kError || slow) {
    FailProbe(now);
    return;
  }
  probe_under_way_ = false;
  if (report.outcome == IoOutcome::kOk) ++good_probes_;
  next_probe_ = now + kProbeSpacing;
  if (good_probes_ < kProbesToReadmit) return;
  state_ = DiskState::kHealthy;
  next_probe_ = absl::InfiniteFuture();
  healthy_since_ = now;
  failed_ = 0;
  slow_ = 0;
}

}  // namespace kvtier
