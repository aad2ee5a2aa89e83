#include "tier_gpu/device/staging_plan.h"

#include <algorithm>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kvtier {
namespace {

// What the widest accesses of the kernel and the copy engine like.
constexpr uint64_t kRunAlignment = 256;

constexpr uint64_t AlignedUp(uint64_t offset) {
  return (offset + kRunAlignment - 1) / kRunAlignment * kRunAlignment;
}

// Fills one buffer after the other.
class Plan {
 public:
  Plan(uint64_t portion_bytes, absl::FunctionRef<bool(const std::byte*)> joins)
      : portion_bytes_(portion_bytes), joins_(joins) {}

  void Add(const CopySegment& segment) {
    for (uint64_t done = 0; done < segment.bytes;) {
      std::byte* const host = segment.host + done;
      bool goes_on = GoesOn(host);
      if (!goes_on) used_ = AlignedUp(used_);
      if (portions.empty() || used_ >= portion_bytes_ ||
          (!goes_on && portions.back().runs.size() == kMaxPortionRuns)) {
        portions.emplace_back();
        used_ = 0;
        goes_on = false;
      }
      StagedPortion& portion = portions.back();
      const uint64_t bytes = std::min(segment.bytes - done, portion_bytes_ - used_);
      if (goes_on) {
        portion.runs.back().bytes += bytes;
      } else {
        portion.runs.push_back({host, used_, bytes});
      }
      portion.pieces.push_back({segment.device_offset + done, used_, bytes});
      used_ += bytes;
      done += bytes;
    }
  }

  std::vector<StagedPortion> portions;

 private:
  // The last run of the portion can take what lies at `host`.
  bool GoesOn(const std::byte* host) const {
    if (portions.empty()) return false;
    const StagedRun& last = portions.back().runs.back();
    return last.host + last.bytes == host && joins_(host);
  }

  const uint64_t portion_bytes_;
  const absl::FunctionRef<bool(const std::byte*)> joins_;
  uint64_t used_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<StagedPortion>> PlanStaging(
    std::span<const CopySegment> segments, absl::FunctionRef<bool(const std::byte* border)> joins) {
  uint64_t bytes = 0;
  std::vector<CopySegment> sorted(segments.begin(), segments.end());
  for (const CopySegment& segment : sorted) bytes += segment.bytes;
  std::ranges::sort(sorted, std::less<>(), &CopySegment::host);
  Plan plan(std::clamp(AlignedUp(bytes / 4), kMinPortionBytes, kStagingBufferBytes), joins);
  for (const CopySegment& segment : sorted) plan.Add(segment);
  if (plan.portions.size() > kMaxPortions) {
    return absl::InvalidArgumentError(absl::StrCat("a staged batch of ", bytes, " bytes fills ",
                                                   plan.portions.size(), " buffers; it may fill ",
                                                   kMaxPortions));
  }
  return std::move(plan.portions);
}

}  // namespace kvtier
