// ReusePredictor learns how likely a block that could be written to the disk is to be requested
// again while the disk would still have it. It learns from written and refused blocks alike, so a
// refusal does not confirm itself.
//
// Every block that is judged falls into one of eight classes by its uses. If its key is in the
// sample, it leaves a ghost: its class, and the number of bytes written to the disk so far. A
// return is a block that comes into host memory again before as many bytes as the disk holds were
// written after its ghost. A class predicts returns / trials, drawn toward the mean of all classes,
// so a class with few trials says little. Old evidence fades: counts are halved.
//
// Classes by depth and by age as well were measured, and were not better by a point: blocks of a
// prefix come in runs with one fate, and many classes see few runs each.
//
// Memory is fixed: 4096 ghosts take some 300 KiB. If the disk keeps blocks longer than the ghosts
// last, a smaller sample of the keys is watched for longer.
//
// Pure and deterministic; its clock is the number of bytes ever written to the disk. Executor
// thread only.
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

// Facts known of a block when it is judged.
struct ReuseEvidence {
  bool seen_before = false;  // Whether the block was judged before.
  uint32_t host_hits = 0;    // Number of hits since it came into host memory.
};

class ReusePredictor {
 public:
  // Makes a predictor. A block written now is gone after `disk_bytes` more were written, as the
  // disk is a log.
  explicit ReusePredictor(uint64_t disk_bytes);

  // Returns the probability of a return: at most 1, and above 0, because a return that never
  // happened is still possible.
  double Predict(const ReuseEvidence& evidence) const;
  // Notes that `key` was judged (written or refused) on `evidence`. If it was judged before and has
  // not returned, it counts only in its new class.
  void Judged(const BlockKey& key, const ReuseEvidence& evidence, uint64_t written_bytes);
  // Notes that `key` came into host memory: committed, or onboarded.
  void Entered(const BlockKey& key, uint64_t written_bytes);

  // Returns n if one key in 2^n is in the sample.
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
    bool watched = false;  // False once the block returned, was judged again, or left the sample.
  };
  static constexpr size_t kHitBuckets = 4;  // Buckets of the number of hits: 0, 1, 2-3, 4 and more.
  static size_t ClassOf(const ReuseEvidence& evidence);
  static void Add(const Counts& change, Counts* to);
  bool InSample(const BlockKey& key) const;
  void Count(size_t judged_as, const Counts& change);
  // Replaces the oldest ghost.
  void Remember(const Ghost& ghost);
  void Forget(Ghost* ghost);
  // Adapts the sample once each round of the ghosts: watches fewer keys for longer, or more keys.
  void AdaptSample(uint64_t written_bytes);
  void HalveSample();

  const uint64_t disk_bytes_;
  Counts all_;
  std::array<Counts, 2 * kHitBuckets> classes_{};
  std::vector<Ghost> ghosts_;  // Ring buffer, written at next_ghost_.
  size_t next_ghost_ = 0;
  absl::flat_hash_map<BlockKey, size_t> watched_;  // Places of watched ghosts.
  int sample_shift_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_ADMISSION_REUSE_PREDICTOR_H_
