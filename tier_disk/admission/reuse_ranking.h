// ReuseRanking knows how a predicted reuse compares with those of the last few
// thousand candidates: the threshold of admission is a rank, not a probability, so
// that it needs no tuning to the traffic and no calibrated prediction.
//
// A histogram over the logarithm of the prediction, a quarter of an octave a bucket,
// in bytes; old candidates fade. Pure. Executor thread only.
#ifndef KVTIER_TIER_DISK_ADMISSION_REUSE_RANKING_H_
#define KVTIER_TIER_DISK_ADMISSION_REUSE_RANKING_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvtier {

class ReuseRanking {
 public:
  // A candidate of `bytes` was predicted `probability`. REQUIRES: 0 < probability <= 1.
  void Add(double probability, uint64_t bytes);
  // The share of the remembered bytes, 0 to 1, that were predicted better. Candidates
  // of one bucket are alike: none of them is better than another.
  double ShareAbove(double probability) const;

 private:
  static constexpr size_t kBucketsPerOctave = 4;
  static constexpr size_t kOctaves = 12;       // Down to 1 in 4096; the last bucket is open.
  static size_t BucketOf(double probability);  // 0 is the best.

  std::array<double, kBucketsPerOctave * kOctaves> bytes_{};
  double total_bytes_ = 0;
  int added_ = 0;  // Since the counts were last halved.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_ADMISSION_REUSE_RANKING_H_
