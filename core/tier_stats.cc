#include "core/tier_stats.h"

#include <algorithm>
#include <cmath>

namespace kvtier {
namespace {

constexpr double kBucketsPerOctave = 4;

// Upper bound of bucket i in nanoseconds: 1 us * 2^((i + 1) / 4). The last of 104
// is 2^26 us, 67 s.
template <size_t kBuckets>
const std::array<int64_t, kBuckets>& UpperBounds() {
  static const std::array<int64_t, kBuckets> bounds = [] {
    std::array<int64_t, kBuckets> result;
    for (size_t i = 0; i < kBuckets; ++i) {
      const double octaves = static_cast<double>(i + 1) / kBucketsPerOctave;
      result[i] = std::llround(1000 * std::exp2(octaves));
    }
    return result;
  }();
  return bounds;
}

}  // namespace

void LatencyHistogram::Record(absl::Duration latency) {
  const auto& bounds = UpperBounds<kBuckets>();
  const auto bucket =
      std::lower_bound(bounds.begin(), bounds.end(), absl::ToInt64Nanoseconds(latency));
  // Beyond the last bound: the last bucket.
  ++buckets_[std::min<size_t>(bucket - bounds.begin(), kBuckets - 1)];
  ++count_;
}

void LatencyHistogram::Add(const LatencyHistogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
}

absl::Duration LatencyHistogram::Quantile(double q) const {
  if (count_ == 0) return absl::ZeroDuration();
  const double rank = std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(count_));
  const uint64_t wanted = std::clamp<uint64_t>(static_cast<uint64_t>(rank), 1, count_);
  size_t bucket = 0;
  for (uint64_t seen = buckets_[0]; seen < wanted; seen += buckets_[bucket]) ++bucket;
  return absl::Nanoseconds(UpperBounds<kBuckets>()[bucket]);
}

void TierStats::Add(const TierStats& other) {
  hits += other.hits;
  misses += other.misses;
  inserts += other.inserts;
  evictions += other.evictions;
  declined += other.declined;
  bytes_in += other.bytes_in;
  bytes_out += other.bytes_out;
  verified += other.verified;
  verify_failures += other.verify_failures;
  io_errors += other.io_errors;
  read_latency.Add(other.read_latency);
  write_latency.Add(other.write_latency);
}

}  // namespace kvtier
