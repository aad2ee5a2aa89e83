// ReuseRanking compares a predicted reuse with those of the last few thousand candidates. The
// threshold of admission is a rank, not a probability, so it needs no tuning to the traffic and no
// calibrated prediction.
//
// ReuseRanking is a histogram over the logarithm of the prediction, in bytes, with a quarter of an
// octave for each bucket; old candidates fade. Pure. Executor thread only.
#ifndef KVTIER_TIER_DISK_ADMISSION_REUSE_RANKING_H_
#define KVTIER_TIER_DISK_ADMISSION_REUSE_RANKING_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvtier {

class ReuseRanking {
 public:
  // Adds a candidate of `bytes` with its predicted `probability`. REQUIRES: 0 < probability <= 1.
  void Add(double probability, uint64_t bytes);
  // Returns the share of the remembered bytes, 0 to 1, with better predictions. Candidates of one
  // bucket are alike: none of them is better than another.
  double ShareAbove(double probability) const;

 private:
  static constexpr size_t kBucketsPerOctave = 4;
  static constexpr size_t kOctaves = 12;       // Covers down to 1 in 4096; the last bucket is open.
  static size_t BucketOf(double probability);  // Bucket 0 is the best.

  std::array<double, kBucketsPerOctave * kOctaves> bytes_{};
  double total_bytes_ = 0;
  int added_ = 0;  // Candidates since the counts were last halved.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_ADMISSION_REUSE_RANKING_H_
