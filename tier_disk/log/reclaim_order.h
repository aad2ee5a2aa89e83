// ReclaimOrder says which blocks of a segment that is about to be freed are worth a second write,
// and which of them most. What it knows of the uses of a block is in the RecordIndex.
//
// LRU: those that were of use since they were appended. Priority: the same ones, those of the
// highest priority first. FIFO: none.
//
// Learnt: a block that is written again lives for one round of the log, so it is worth the chance
// of a use within the next round, as ReuseHazards has it for the block's class and age, times its
// weight. It is written again where that is no less than
//   - nine tenths of the mean over all blocks of the segments reclaimed lately: so the log keeps
//     the better part of what comes to its end, however good or bad that is, and
//   - a quarter of the chance of a block that is put, for each write wears the drive and makes
//     every round shorter.
// ReuseSample teaches the chances. Until it has, and while it says that LRU finds more, LRU it is.
//
// Nothing is known of blocks that a restart found: until somebody asks for one, it is worth a
// second write to LRU alone.
//
// Pure bookkeeping: no I/O; AdvanceTo() brings the time. Executor thread only. Memory: 8 bytes a
// segment, and for the learnt order some 2.5 MB.
#ifndef KVTIER_TIER_DISK_LOG_RECLAIM_ORDER_H_
#define KVTIER_TIER_DISK_LOG_RECLAIM_ORDER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "core/block_key.h"
#include "core/eviction_policy.h"
#include "core/eviction_summary.h"
#include "core/moment.h"
#include "core/reuse_hazards.h"
#include "core/reuse_hint.h"
#include "core/reuse_sample.h"
#include "core/reuse_state.h"
#include "core/worth_queues.h"
#include "tier_disk/io/disk.h"
#include "tier_disk/log/record_index.h"

namespace kvtier {

class ReclaimOrder {
 public:
  // Does not own `index`, which has so many segments.
  ReclaimOrder(EvictionPolicy policy, uint32_t segments, RecordIndex* index);

  // Moves the order's clock, which stands still between calls and never goes back.
  void AdvanceTo(absl::Time now) { clock_.AdvanceTo(now); }
  // Notes that the block was put, which is a sign of life of its ancestors and no use of them.
  // REQUIRES: it is new in the index.
  void NotePut(const BlockKey& key);
  // Notes that somebody asked for the block and what the engine says of it; ignores one that is
  // not here. What LRU goes by is RecordIndex::Touch().
  void NoteUse(const BlockKey& key, const ReuseHint& hint);
  // Looks at the blocks of a segment that is to be reclaimed: WorthOf() is asked for those next.
  void BeginReclaim(SegmentId victim);
  // Returns what a second write of the block is worth beside others; nullopt: it is not worth
  // one. REQUIRES: the block is here.
  std::optional<double> WorthOf(const BlockKey& key) const;
  // Returns what the order learns from the uses of blocks; null: its policy does not learn. What it
  // takes over (ReuseHazards::Take) it follows at once.
  ReuseHazards* hazards() { return learning_ == nullptr ? nullptr : &learning_->hazards; }
  // Returns what this order does.
  EvictionSummary Summary() const;
  // Aborts when an invariant does not hold.
  void Audit() const;

 private:
  // Parts that only the learnt order has.
  struct Learning {
    ReuseHazards hazards;
    ReuseSample sample{&hazards};
    std::array<float, kReuseClasses> puts{};  // Blocks put, by class; old ones fade.
    double round_seconds = 1;                 // Length of the last round of the log.
    double mean_chance = 0;                   // Over the blocks of segments reclaimed lately.
    double bar = 0;                           // Least worth of a second write.
  };
  // Returns the policy that is followed now: kLru while the learnt order knows little or finds
  // less.
  EvictionPolicy followed() const;
  // Returns the chance of a use within the next round, times the block's weight. REQUIRES: the
  // policy is kLearnt.
  double ChanceOf(const BlockUse& use) const;
  double ChanceOfPuts() const;
  // Tells the sample that the block was asked for now.
  void Teach(const BlockKey& key, const ReuseState& state);
  // Returns the second of the present, which is not 0.
  uint32_t SecondNow() const { return static_cast<uint32_t>(clock_.now() / 1'000'000) + 1; }

  const EvictionPolicy policy_;
  RecordIndex* const index_;  // Not owned.
  MomentClock clock_;
  std::vector<Moment> reclaimed_;             // By segment: when it was last.
  const std::unique_ptr<Learning> learning_;  // Null: the policy is not kLearnt.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_LOG_RECLAIM_ORDER_H_
