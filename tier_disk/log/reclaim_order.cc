#include "tier_disk/log/reclaim_order.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvtier {
namespace {

// Minimum worth of a second write; see the header. Half of the mean keeps more and writes up to a
// third more for it; the mean itself finds up to 3 points less where nearly every block comes back
// within a round.
constexpr double kOfMean = 0.9;
constexpr double kOfPut = 0.25;
// Minimum chance of a use within the next round. A block with a lower one would be written more
// than 32 times for each use: that takes the disk longer than an engine needs to compute the block.
constexpr double kMinChance = 1.0 / 32;
// Weight of the newest segment in the mean.
constexpr double kNewestSegment = 0.1;
// Share of the counts of blocks put that remains after each reclaim.
constexpr float kFading = 0.98F;
// Minimum length of a round: a disk that is overwritten faster gets no requests in that time.
constexpr double kMinRoundSeconds = 1;

// Returns whether any use of the block is known.
bool IsKnown(const BlockUse& use) { return use.last_second != 0; }

}  // namespace

ReclaimOrder::ReclaimOrder(EvictionPolicy policy, uint32_t segments, RecordIndex* index)
    : policy_(policy),
      index_(index),
      started_(clock_.now()),
      reclaimed_(segments, started_),
      learning_(policy == EvictionPolicy::kLearnt ? std::make_unique<Learning>() : nullptr) {}

void ReclaimOrder::Teach(const BlockKey& key, const ReuseState& state) {
  // The sample distinguishes uses by their moments.
  if (learning_ != nullptr) learning_->sample.Asked(key, state, clock_.Tick(), index_->size());
}

void ReclaimOrder::NotePut(const BlockKey& key) {
  BlockUse& use = *index_->UseOf(key);
  const uint32_t now = SecondNow();
  uint32_t height = 0;
  // A request for the block implies requests for all its ancestors, wherever they are served.
  index_->ForEachAncestor(key, [&](BlockUse* ancestor) {
    if (++height == 1) use.state = ancestor->state.OfChild();
    if (height <= ReuseState::kMaxHeight) {
      ancestor->state.height = std::max<uint32_t>(ancestor->state.height, height);
    } else if (ancestor->last_second == now) {
      return false;  // An earlier put updated the ancestors above it, too.
    }
    ancestor->last_second = now;
    return true;
  });
  use.last_second = now;
  if (learning_ != nullptr) learning_->puts[static_cast<size_t>(use.state.Class())] += 1;
  Teach(key, use.state);
}

void ReclaimOrder::NoteUse(const BlockKey& key, const ReuseHint& hint) {
  BlockUse* const use = index_->UseOf(key);
  if (use == nullptr) return;
  const uint32_t before = IsKnown(*use) ? use->last_second : 1;  // 1: since the start.
  use->last_second = SecondNow();
  use->state.Use(use->last_second - before);
  use->state.Take(hint);
  Teach(key, use->state);
}

double ReclaimOrder::ChanceOf(const BlockUse& use) const {
  const double chance = learning_->hazards.ChanceWithin(
      use.state.Class(), SecondNow() - use.last_second, learning_->round_seconds);
  return chance * std::exp2(use.state.Weight() / 2.0);
}

double ReclaimOrder::ChanceOfPuts() const {
  double puts = 0;
  double uses = 0;
  for (size_t i = 0; i < kReuseClasses; ++i) {
    puts += learning_->puts[i];
    uses += learning_->puts[i] * learning_->hazards.ChanceWithin(static_cast<ReuseClass>(i), 0,
                                                                 learning_->round_seconds);
  }
  return puts > 0 ? uses / puts : 0;
}

void ReclaimOrder::BeginReclaim(SegmentId victim) {
  const Moment before = std::exchange(reclaimed_.at(static_cast<size_t>(victim)), clock_.now());
  const std::vector<BlockKey> keys = index_->InSegment(victim);
  // A segment without blocks says nothing about how long blocks live.
  if (learning_ == nullptr || keys.empty()) return;
  learning_->sample.Full(index_->size());
  learning_->round_seconds = std::max(SecondsBetween(before, clock_.now()), kMinRoundSeconds);
  double sum = 0;
  size_t known = 0;
  for (const BlockKey& key : keys) {
    const BlockUse& use = *index_->UseOf(key);
    if (!IsKnown(use)) continue;
    sum += ChanceOf(use);
    ++known;
  }
  if (known > 0) {
    const double mean = sum / static_cast<double>(known);
    double& mean_chance = learning_->mean_chance;
    mean_chance = mean_chance == 0 ? mean : mean_chance + kNewestSegment * (mean - mean_chance);
  }
  learning_->bar = std::max(kOfMean * learning_->mean_chance, kOfPut * ChanceOfPuts());
  // Since the start the log may not have come round yet, so rounds may be longer than they look.
  if (before > started_) learning_->bar = std::max(learning_->bar, kMinChance);
  for (float& puts : learning_->puts) puts *= kFading;
}

EvictionPolicy ReclaimOrder::followed() const {
  if (learning_ == nullptr) return policy_;
  const bool has_learnt = learning_->hazards.conclusions() > 0;
  return has_learnt && learning_->sample.learnt_leads() ? policy_ : EvictionPolicy::kLru;
}

std::optional<double> ReclaimOrder::WorthOf(const BlockKey& key) const {
  const BlockUse& use = *index_->UseOf(key);
  switch (followed()) {
    case EvictionPolicy::kLearnt: {
      if (!IsKnown(use)) break;
      const double chance = ChanceOf(use);
      if (chance < learning_->bar) return std::nullopt;
      return chance;
    }
    case EvictionPolicy::kFifo:
      return std::nullopt;
    case EvictionPolicy::kLru:
    case EvictionPolicy::kPriority:
      break;
  }
  if (!index_->IsWarm(key)) return std::nullopt;
  if (policy_ != EvictionPolicy::kPriority || use.state.ended != 0) return 0;
  return use.state.priority;
}

EvictionSummary ReclaimOrder::Summary() const {
  EvictionSummary summary{.policy = policy_, .orders = 1};
  if (learning_ != nullptr) {
    summary.following_lru = followed() == EvictionPolicy::kLru ? 1 : 0;
    summary.score = learning_->sample.score();
  }
  return summary;
}

void ReclaimOrder::Audit() const {
  if (learning_ != nullptr) learning_->sample.Audit();
}

}  // namespace kvtier
