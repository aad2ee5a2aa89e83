#include "tier_disk/admission/reuse_ranking.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvtier {
namespace {

// Number of candidates after which bytes are halved: half the weight lies on the last 4096.
constexpr int kHalfLife = 4096;

}  // namespace

size_t ReuseRanking::BucketOf(double probability) {
  const double octaves = -std::log2(probability);
  const double bucket = std::floor(std::max(octaves, 0.0) * kBucketsPerOctave);
  return std::min(static_cast<size_t>(bucket), kBucketsPerOctave * kOctaves - 1);
}

void ReuseRanking::Add(double probability, uint64_t bytes) {
  if (++added_ > kHalfLife) {
    for (double& in_bucket : bytes_) in_bucket /= 2;
    total_bytes_ /= 2;
    added_ = 0;
  }
  bytes_[BucketOf(probability)] += static_cast<double>(bytes);
  total_bytes_ += static_cast<double>(bytes);
}

double ReuseRanking::ShareAbove(double probability) const {
  if (total_bytes_ == 0) return 0;
  const auto end = bytes_.begin() + static_cast<std::ptrdiff_t>(BucketOf(probability));
  return std::min(std::accumulate(bytes_.begin(), end, 0.0) / total_bytes_, 1.0);
}

}  // namespace kvtier
