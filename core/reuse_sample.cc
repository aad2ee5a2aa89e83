#include "core/reuse_sample.h"

#include <algorithm>
#include <optional>

#include "core/check.h"

namespace kvtier {
namespace {

// Least number of lessons from one conclusion to the next.
constexpr size_t kLessonsPerConclusion = 512;
// Conclusions a second, at most: each takes as long as some thousand uses.
constexpr double kConclusionsPerSecond = 10;
// The score covers about as many of the last requests for sampled blocks as kScoredCaches times the
// size of a small cache, plus kMinScored.
constexpr double kScoredCaches = 16;
constexpr double kMinScored = 1024;
// The learnt order loses the lead when it finds this share of what is asked for less than LRU, and
// regains the lead when it finds as much as LRU, so that chance does not change the order often.
constexpr double kLosing = 0.003;

// Returns whether blocks of these states wait in one queue of the small cache.
bool IsOneQueue(const ReuseState& a, const ReuseState& b) {
  return a.Class() == b.Class() && a.Weight() == b.Weight();
}

}  // namespace

void ReuseSample::Fit(size_t members) {
  while ((members >> shift_) > kMaxSampledBlocks) {
    ++shift_;
    for (uint32_t number = 0; number < slots_.size(); ++number) {
      const Watched& watched = slots_[number];
      if (watched.last != 0 && !IsSampled(watched.key)) Forget(number);
    }
    if (capacity_ != ~size_t{0}) capacity_ = std::max<size_t>(capacity_ / 2, 1);
  }
}

void ReuseSample::Full(size_t members) {
  Fit(members);
  capacity_ = std::max<size_t>(members >> shift_, 1);
}

uint32_t ReuseSample::QueueFor(const ReuseState& state) {
  return learnt_.QueueOf({.of = state.Class(), .weight = state.Weight()});
}

void ReuseSample::SampledAsked(const BlockKey& key, const ReuseState& state, Moment now,
                               size_t members) {
  Fit(members);
  if (!IsSampled(key)) return;
  const auto [found, is_new] = watched_.try_emplace(key, 0);
  if (is_new) {
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    found->second = free_.back();
    free_.pop_back();
    slots_[found->second] = {.key = key};
  }
  const uint32_t number = found->second;
  Watched& watched = slots_[number];
  if (!is_new) {
    const Moment before = watched.last;
    hazards_->Learn(watched.state.Class(), SecondsBetween(before, now), true);
    if (watched.in_learnt) learnt_.Remove(watched.queue, before);
  }
  Count(watched);
  if (!is_new) Unlink(number);
  if (is_new || !IsOneQueue(watched.state, state)) watched.queue = QueueFor(state);
  watched.state = state;
  watched.last = now;
  LinkNewest(number);
  PutIntoLearnt(number, now);
  if (watched_.size() > kMaxWatchedBlocks) Drop(oldest_, now);
  ConcludeIfDue(now);
}

void ReuseSample::Count(const Watched& watched) {
  const double scored =
      kScoredCaches * static_cast<double>(std::min(capacity_, kMaxSampledBlocks)) + kMinScored;
  const auto fade = [scored](double* count, bool found) {
    *count += (found ? 1 : 0) - *count / scored;
  };
  fade(&score_.learnt, watched.in_learnt);
  fade(&score_.lru, watched.in_lru);
  fade(&score_.asked, true);
  const double allowed = learnt_leads_ ? kLosing * score_.asked : 0;
  learnt_leads_ = score_.learnt + allowed >= score_.lru;
}

void ReuseSample::Unlink(uint32_t number) {
  Watched& watched = slots_[number];
  if (watched.in_lru) {
    --in_lru_;
    if (oldest_in_lru_ == number) oldest_in_lru_ = watched.newer;
    watched.in_lru = false;
  }
  (watched.older == kNone ? oldest_ : slots_[watched.older].newer) = watched.newer;
  (watched.newer == kNone ? newest_ : slots_[watched.newer].older) = watched.older;
}

void ReuseSample::LinkNewest(uint32_t number) {
  Watched& watched = slots_[number];
  watched.older = newest_;
  watched.newer = kNone;
  (newest_ == kNone ? oldest_ : slots_[newest_].newer) = number;
  newest_ = number;
  watched.in_lru = true;
  if (in_lru_++ == 0) oldest_in_lru_ = number;
  for (; in_lru_ > capacity_; --in_lru_) {
    Watched& leaves = slots_[oldest_in_lru_];
    leaves.in_lru = false;
    oldest_in_lru_ = leaves.newer;
  }
}

void ReuseSample::PutIntoLearnt(uint32_t number, Moment now) {
  Watched& watched = slots_[number];
  watched.in_learnt = true;
  learnt_.Add(watched.queue, now, number);
  while (learnt_.size() > capacity_) {
    // The newcomer itself leaves if it is worth the least.
    const WorthQueues::Choice first = *learnt_.First(WorthQueues::Ranked::kByWorth, now);
    Watched& leaves = slots_[first.item];
    learnt_.Remove(leaves.queue, leaves.last);
    leaves.in_learnt = false;
  }
}

void ReuseSample::Changed(const BlockKey& key, const ReuseState& state) {
  const auto found = watched_.find(key);
  if (found == watched_.end()) return;
  Watched& watched = slots_[found->second];
  watched.state = state;
  if (!watched.in_learnt) return;
  learnt_.Remove(watched.queue, watched.last);
  watched.queue = QueueFor(state);
  learnt_.Add(watched.queue, watched.last, found->second);
}

void ReuseSample::Drop(uint32_t number, Moment now) {
  const Watched& watched = slots_[number];
  hazards_->Learn(watched.state.Class(), SecondsBetween(watched.last, now), false);
  Forget(number);
}

void ReuseSample::Forget(uint32_t number) {
  Watched& watched = slots_[number];
  if (watched.in_learnt) learnt_.Remove(watched.queue, watched.last);
  Unlink(number);
  watched_.erase(watched.key);
  watched = {};
  free_.push_back(number);
}

void ReuseSample::ConcludeIfDue(Moment now) {
  if (hazards_->new_lessons() < kLessonsPerConclusion) return;
  credit_ = std::min(kConclusionsAtOnce,
                     credit_ + kConclusionsPerSecond * SecondsBetween(credited_, now));
  credited_ = now;
  if (credit_ < 1) return;
  credit_ -= 1;
  std::vector<ReuseHazards::Waiting> waiting;
  waiting.reserve(watched_.size());
  for (uint32_t number = oldest_; number != kNone; number = slots_[number].newer) {
    const Watched& watched = slots_[number];
    waiting.push_back({.of = watched.state.Class(), .seconds = SecondsBetween(watched.last, now)});
  }
  hazards_->Conclude(waiting);
}

void ReuseSample::Audit() const {
  size_t linked = 0;
  size_t in_lru = 0;
  size_t in_learnt = 0;
  uint32_t older = kNone;
  for (uint32_t number = oldest_; number != kNone; number = slots_[number].newer) {
    const Watched& watched = slots_[number];
    KVT_CHECK(IsSampled(watched.key) && watched_.at(watched.key) == number);
    KVT_CHECK(watched.older == older);
    KVT_CHECK(older == kNone || slots_[older].last < watched.last);
    // The newest ones are in the cache of LRU.
    KVT_CHECK(watched.in_lru == (in_lru > 0 || number == oldest_in_lru_));
    older = number;
    ++linked;
    KVT_CHECK(!watched.in_learnt ||
              learnt_.Contains(learnt_.IdOf(watched.queue), watched.last, number));
    in_lru += watched.in_lru ? 1 : 0;
    in_learnt += watched.in_learnt ? 1 : 0;
  }
  KVT_CHECK(linked == watched_.size() && newest_ == older);
  KVT_CHECK(in_lru == in_lru_ && in_learnt == learnt_.size());
}

}  // namespace kvtier
