// ReusePredictor learns how likely a block that could be written to the disk is to be
// asked for again while the disk would still have it. It learns from written and
// refused blocks alike, so that a refusal does not prove itself right.
//
// Every block judged falls into one of eight classes by how it was touched, and, if
// its key is in the sample, leaves a ghost: its class and how much the disk had been
// written. A block that comes into host memory again before the disk has been written
// once over since then is a return. A class predicts returns / trials, drawn toward
// the mean of all classes, so that one with few trials says little. Old evidence
// fades: counts are halved.
//
// Classes by depth and by age as well were measured, and were not better by a point:
// blocks of a prefix come in runs with one fate, and many classes see few runs each.
//
// Memory is fixed: 4096 ghosts take some 300 KiB. Where the disk outlives the ghosts, a
// smaller sample of the keys is watched for longer.
//
// Pure and deterministic; its clock is the bytes ever written to the disk.
// Executor thread only.
#ifndef KVTIER_TIER_DISK_ADMISSION_REUSE_PREDICTOR_H_
#define KVTIER_TIER_DISK_ADMISSION_REUSE_PREDICTOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/block_key.h"

namespace kvtier {

inline constexpr size_t kMaxReuseGhosts = 4096;

// What is known of a block when it is judged.
struct ReuseEvidence {
  bool seen_before = false;  // Judged before: it comes back, or is judged once more.
  uint32_t host_hits = 0;    // Since it came into host memory.
};

class ReusePredictor {
 public:
  // A block written now is gone after `disk_bytes` more were written: the disk is a log.
  explicit ReusePredictor(uint64_t disk_bytes);

  // Above 0, for what has not happened yet may still, and at most 1.
  double Predict(const ReuseEvidence& evidence) const;
  // `key` was judged (written or refused) on `evidence`. Judged again before it
  // returned, it counts in its new class only: the last word is what it is judged by.
  void Judged(const BlockKey& key, const ReuseEvidence& evidence, uint64_t written_bytes);
  // `key` came into host memory: committed, or onboarded.
  void Entered(const BlockKey& key, uint64_t written_bytes);

  // One key in 2^shift is in the sample.
  int sample_shift() const { return sample_shift_; }

 private:
  struct Counts {
    float trials = 0;
    float returns = 0;
  };
  struct Ghost {
    BlockKey key;
    uint64_t written_bytes = 0;
    size_t judged_as = 0;
    bool watched = false;  // False: it returned, was judged again, or left the sample.
  };
  static constexpr size_t kHitBuckets = 4;  // 0, 1, 2-3, 4 and more.
  static size_t ClassOf(const ReuseEvidence& evidence);
  static void Add(const Counts& change, Counts* to);
  bool InSample(const BlockKey& key) const;
  void Count(size_t judged_as, const Counts& change);
  // Takes the oldest ghost's place.
  void Remember(const Ghost& ghost);
  void Forget(Ghost* ghost);
  // Once a round of the ghosts: watches fewer keys for longer, or more.
  void AdaptSample(uint64_t written_bytes);
  void HalveSample();

  const uint64_t disk_bytes_;
  Counts all_;
  std::array<Counts, 2 * kHitBuckets> classes_{};
  std::vector<Ghost> ghosts_;  // A ring, written at next_ghost_.
  size_t next_ghost_ = 0;
  absl::flat_hash_map<BlockKey, size_t> watched_;  // The places of watched ghosts.
  int sample_shift_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_ADMISSION_REUSE_PREDICTOR_H_
