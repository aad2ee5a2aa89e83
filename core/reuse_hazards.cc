#include "core/reuse_hazards.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace kvtier {
namespace {

constexpr double kFirstEnd = 16;
constexpr double kGapsPerOctave = 2;
// What weighs as much as so many waits: the mean of all classes for one class, and what
// makes it LRU, a use in one of 20 in every bucket, for the mean.
constexpr double kWaitsOfMean = 5;
constexpr double kWaitsOfLru = 100;
constexpr double kUsesOfLru = 0.05 * kWaitsOfLru;
// Lessons from one conclusion to the next: few as long as each tells much.
constexpr size_t kLessonsAtFirst = 64;
constexpr size_t kLessonsLater = 1024;

}  // namespace

double ReuseHazards::EndOf(size_t bucket) {
  static const std::array<double, kBuckets> kEnds = [] {
    std::array<double, kBuckets> ends{};
    for (size_t i = 0; i < kBuckets; ++i) {
      ends[i] = kFirstEnd * std::exp2(static_cast<double>(i) / kGapsPerOctave);
    }
    return ends;
  }();
  return kEnds[bucket];
}

double ReuseHazards::WidthOf(size_t bucket) {
  return EndOf(bucket) - (bucket == 0 ? 0 : EndOf(bucket - 1));
}

size_t ReuseHazards::BucketOf(uint64_t age) {
  const auto ticks = static_cast<double>(age);
  if (ticks < kFirstEnd) return 0;
  const double octaves = std::log2(ticks / kFirstEnd);
  return std::min(static_cast<size_t>(kGapsPerOctave * octaves) + 1, kBuckets - 1);
}

ReuseHazards::ReuseHazards(size_t classes) : classes_(classes), worths_(classes) {
  KVT_CHECK(classes > 0);
  Conclude();
}

void ReuseHazards::Add(double age, size_t bucket, bool used, Evidence* to) {
  for (size_t i = 0; i < bucket; ++i) to->ticks[i] += WidthOf(i);
  to->ticks[bucket] += std::max(age - (bucket == 0 ? 0 : EndOf(bucket - 1)), 0.0);
  if (used) to->uses[bucket] += 1;
}

void ReuseHazards::Learn(size_t of_class, uint64_t age, bool used) {
  KVT_CHECK(of_class < classes_.size());
  const size_t bucket = BucketOf(age);
  Add(static_cast<double>(age), bucket, used, &classes_[of_class]);
  Add(static_cast<double>(age), bucket, used, &all_);
  ++lessons_;
  if (lessons_ % (lessons_ < kLessonsLater ? kLessonsAtFirst : kLessonsLater) == 0) Conclude();
}

void ReuseHazards::Conclude() {
  std::array<double, kBuckets> mean{};
  for (size_t i = 0; i < kBuckets; ++i) {
    // The first bucket stands for all octaves below it.
    const double uses = i > 0 ? kUsesOfLru : 2 * kUsesOfLru * WidthOf(0) / WidthOf(1);
    mean[i] = (all_.uses[i] + uses) / (all_.ticks[i] + kWaitsOfLru * WidthOf(i));
  }
  for (size_t c = 0; c < classes_.size(); ++c) {
    const Evidence& evidence = classes_[c];
    std::array<double, kBuckets> hazards{};
    for (size_t i = 0; i < kBuckets; ++i) {
      const double waits = kWaitsOfMean * WidthOf(i);
      hazards[i] = (evidence.uses[i] + waits * mean[i]) / (evidence.ticks[i] + waits);
    }
    for (size_t from = 0; from < kBuckets; ++from) {
      double unused = 1;  // The chance of no use so far.
      double room = 0;    // The ticks that it is expected to be kept so far.
      double best = 0;
      for (size_t i = from; i < kBuckets; ++i) {
        const double later = unused * std::exp(-hazards[i] * WidthOf(i));
        room += (unused - later) / hazards[i];
        unused = later;
        best = std::max(best, (1 - unused) / room);
      }
      worths_[c][from] = best;
    }
  }
}

double ReuseHazards::Worth(size_t of_class, uint64_t age) const {
  KVT_CHECK(of_class < classes_.size());
  return worths_[of_class][BucketOf(age)];
}

}  // namespace kvtier
