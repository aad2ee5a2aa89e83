#include "tier_disk/admission/reuse_predictor.h"

#include <algorithm>
#include <bit>

namespace kvtier {
namespace {

// Weight of the mean of all classes beside a class's own trials, in trials: some ten prompts of
// tens of blocks.
constexpr float kPriorTrials = 500;
// Share of returns assumed before any trial; the first trials outweigh it.
constexpr float kPriorShare = 0.5F;
// Trials above which counts are halved. Well above the number of ghosts whose fate is open: a
// return counts in full even if its trial has been halved since.
constexpr float kWindowTrials = 4 * kMaxReuseGhosts;
// Maximum of sample_shift_: one key in 65536 is in the sample.
constexpr int kMaxSampleShift = 16;

void Halve(auto* counts) {
  counts->trials /= 2;
  counts->returns /= 2;
}

}  // namespace

ReusePredictor::ReusePredictor(uint64_t disk_bytes) : disk_bytes_(disk_bytes) {
  ghosts_.resize(kMaxReuseGhosts);
  watched_.reserve(kMaxReuseGhosts);
}

size_t ReusePredictor::ClassOf(const ReuseEvidence& evidence) {
  const auto hits = static_cast<size_t>(std::bit_width(evidence.host_hits));
  return (evidence.seen_before ? kHitBuckets : 0) + std::min(hits, kHitBuckets - 1);
}

double ReusePredictor::Predict(const ReuseEvidence& evidence) const {
  const Counts& counts = classes_[ClassOf(evidence)];
  const float mean = (all_.returns + kPriorTrials * kPriorShare) / (all_.trials + kPriorTrials);
  const float share = (counts.returns + kPriorTrials * mean) / (counts.trials + kPriorTrials);
  return std::clamp(static_cast<double>(share), 1e-6, 1.0);
}

bool ReusePredictor::InSample(const BlockKey& key) const {
  return (key.lo & ((uint64_t{1} << sample_shift_) - 1)) == 0;
}

void ReusePredictor::Add(const Counts& change, Counts* to) {
  // A change of -1 trial may meet counts that were halved since the trial was counted.
  to->trials = std::max(to->trials + change.trials, 0.0F);
  to->returns = std::min(to->returns + change.returns, to->trials);
  if (to->trials > kWindowTrials) Halve(to);
}

void ReusePredictor::Count(size_t judged_as, const Counts& change) {
  Add(change, &all_);
  Add(change, &classes_[judged_as]);
}

void ReusePredictor::Forget(Ghost* ghost) {
  ghost->watched = false;
  watched_.erase(ghost->key);
}

void ReusePredictor::Judged(const BlockKey& key, const ReuseEvidence& evidence,
                            uint64_t written_bytes) {
  if (!InSample(key)) return;
  if (const auto again = watched_.find(key); again != watched_.end()) {
    Ghost& ghost = ghosts_[again->second];
    Count(ghost.judged_as, {.trials = -1});
    Forget(&ghost);
  }
  const size_t judged_as = ClassOf(evidence);
  Count(judged_as, {.trials = 1});
  Remember({.key = key, .written_bytes = written_bytes, .judged_as = judged_as, .watched = true});
}

void ReusePredictor::Remember(const Ghost& ghost) {
  Ghost& oldest = ghosts_[next_ghost_];
  if (oldest.watched) Forget(&oldest);
  oldest = ghost;
  watched_[ghost.key] = next_ghost_;
  if (++next_ghost_ < ghosts_.size()) return;
  next_ghost_ = 0;
  AdaptSample(ghost.written_bytes);
}

void ReusePredictor::AdaptSample(uint64_t written_bytes) {
  const uint64_t round_bytes = written_bytes - ghosts_.front().written_bytes;
  if (round_bytes < disk_bytes_ && sample_shift_ < kMaxSampleShift) {
    HalveSample();
  } else if (round_bytes / 4 > disk_bytes_ && sample_shift_ > 0) {
    --sample_shift_;  // Needs no halving: the few counts of the thinner sample fade.
  }
}

void ReusePredictor::HalveSample() {
  ++sample_shift_;
  // Halves the counts, because half as many keys are in the new sample; otherwise old trials would
  // outweigh new ones.
  Halve(&all_);
  for (Counts& counts : classes_) Halve(&counts);
  for (Ghost& ghost : ghosts_) {
    if (ghost.watched && !InSample(ghost.key)) Forget(&ghost);
  }
}

void ReusePredictor::Entered(const BlockKey& key, uint64_t written_bytes) {
  const auto found = watched_.find(key);
  if (found == watched_.end()) return;
  Ghost& ghost = ghosts_[found->second];
  if (written_bytes - ghost.written_bytes <= disk_bytes_) {
    Count(ghost.judged_as, {.returns = 1});
  }
  Forget(&ghost);
}

}  // namespace kvtier
