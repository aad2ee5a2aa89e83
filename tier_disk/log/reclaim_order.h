// ReclaimOrder says which blocks of a segment that is about to be freed are worth a second write,
// and which of them most. The RecordIndex stores what is known of the uses of each block.
//
// By LRU, a block is worth it if it was used since it was appended. By priority, the same blocks
// are, those of the highest priority first. By FIFO, no block is.
//
// By the learnt policy, a block that is written again lives for one round of the log, so it is
// worth the chance of a use within the next round, as ReuseHazards gives it for the block's class
// and age, times its weight. It is written again if that is no less than
// - nine tenths of the mean over all blocks of the segments reclaimed lately: so the log keeps the
//   better part of the blocks that reach its end, however good or bad they are, and
// - a quarter of the chance of a block that is put, because each write wears the drive and makes
//   every round shorter, and
// - one in 32, once the log has come round: a block with a lower chance would be written more than
// 32
//   times for each use.
// ReuseSample learns the chances. Until it has learnt them, and while it reports that LRU finds
// more, the learnt policy does as LRU.
//
// Blocks that a restart found have no known use: until one is noted, LRU decides on them.
//
// Pure bookkeeping: no I/O; AdvanceTo() sets the time. Executor thread only. Memory: 8 bytes a
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
  // Makes an order. Does not own `index`, which has `segments` segments.
  ReclaimOrder(EvictionPolicy policy, uint32_t segments, RecordIndex* index);

  // Moves the order's clock, which stands still between calls and never goes back.
  void AdvanceTo(absl::Time now) { clock_.AdvanceTo(now); }
  // Notes that the block was put. This renews the time of the last use of its ancestors, but counts
  // as no use of them. REQUIRES: it is new in the index.
  void NotePut(const BlockKey& key);
  // Notes that somebody requested the block, and what the engine says of it; ignores a block that
  // is not here. RecordIndex::Touch() notes what LRU needs.
  void NoteUse(const BlockKey& key, const ReuseHint& hint);
  // Learns from the blocks of a segment that is to be reclaimed how long a round is and how much a
  // second write must be worth. Call it before WorthOf() of these blocks.
  void BeginReclaim(SegmentId victim);
  // Returns the worth of a second write of the block, for comparison with others; nullopt: it is
  // not worth one. REQUIRES: the block is here.
  std::optional<double> WorthOf(const BlockKey& key) const;
  // Returns what the order learns from the uses of blocks; null: its policy does not learn. Lessons
  // that it takes over (ReuseHazards::Take) apply at once.
  ReuseHazards* hazards() { return learning_ == nullptr ? nullptr : &learning_->hazards; }
  // Returns figures about what this order does.
  EvictionSummary Summary() const;
  // Aborts when an invariant does not hold.
  void Audit() const;

 private:
  // Parts that only the learnt order has.
  struct Learning {
    ReuseHazards hazards;
    ReuseSample sample{&hazards};
    std::array<float, kReuseClasses> puts{};  // Number of blocks put, by class; old ones fade.
    double round_seconds = 1;                 // Length of the last round of the log.
    double mean_chance = 0;                   // Mean over the blocks of segments reclaimed lately.
    double bar = 0;                           // Minimum worth of a second write.
  };
  // Returns the policy that is followed now: kLru in place of kLearnt while nothing was learnt yet
  // or LRU finds more.
  EvictionPolicy followed() const;
  // Returns the chance of a use within the next round, times the block's weight. REQUIRES: the
  // policy is kLearnt.
  double ChanceOf(const BlockUse& use) const;
  double ChanceOfPuts() const;
  // Tells the sample that the block was requested now.
  void Teach(const BlockKey& key, const ReuseState& state);
  // Returns the present second, which is not 0.
  uint32_t SecondNow() const { return static_cast<uint32_t>(clock_.now() / 1'000'000) + 1; }

  const EvictionPolicy policy_;
  RecordIndex* const index_;  // Borrowed.
  MomentClock clock_;
  const Moment started_;           // Time at which the order was made.
  std::vector<Moment> reclaimed_;  // Time of the last reclaim of each segment; started_: none yet.
  // Parts of the learnt order; null: the policy is not kLearnt.
  const std::unique_ptr<Learning> learning_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_LOG_RECLAIM_ORDER_H_
