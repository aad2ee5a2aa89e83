#include "tier_disk/io/latency_history.h"

#include <algorithm>
#include <cmath>

namespace kvtier {
namespace {

constexpr uint64_t kSmallestClassBytes = 4096;
constexpr double kBucketsPerOctave = 4;

}  // namespace

size_t LatencyHistory::ClassOf(uint64_t bytes) {
  size_t size_class = 0;
  for (uint64_t bound = kSmallestClassBytes; bytes > bound && size_class + 1 < kClasses;
       bound *= 4) {
    ++size_class;
  }
  return size_class;
}

void LatencyHistory::Add(uint64_t bytes, absl::Duration latency) {
  SizeClass& seen = classes_[ClassOf(bytes)];
  const double us = std::max(1.0, absl::ToDoubleMicroseconds(latency));
  const auto bucket = static_cast<size_t>(kBucketsPerOctave * std::log2(us));
  ++seen.buckets[std::min(bucket, kBuckets - 1)];
  if (++seen.count < kHistoryMaxIos) return;
  seen.count = 0;
  for (uint16_t& count : seen.buckets) {
    count /= 2;
    seen.count += count;
  }
}

std::optional<absl::Duration> LatencyHistory::Median(uint64_t bytes) const {
  const SizeClass& seen = classes_[ClassOf(bytes)];
  if (seen.count < kHistoryMinIos) return std::nullopt;
  size_t bucket = 0;
  for (uint32_t below = seen.buckets[0]; below * 2 < seen.count; below += seen.buckets[bucket]) {
    ++bucket;
  }
  return absl::Microseconds(std::exp2(static_cast<double>(bucket + 1) / kBucketsPerOctave));
}

}  // namespace kvtier
