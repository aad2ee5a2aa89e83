#include "core/reuse_hazards.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/check.h"

namespace kvtier {
namespace {

constexpr double kBucketsPerOctave = 4;
// The open bucket is worked with as if it were a sixth wider than its beginning, as the others are.
constexpr double kOpenWidth = 0.19;

// Waits that the next wider group weighs as much as. Blocks of one request come in runs of ten to
// hundreds with one fate, so a thousand waits are evidence of a few requests.
constexpr double kWaitsOfFamily = 2000;
constexpr double kWaitsOfActivity = 500;
constexpr double kWaitsOfPrior = 300;

// The prior: shares of the blocks that are ever used again, by activity, and the time until then,
// log-normal. Published traces of chats and of agents lie on both sides of each.
constexpr double kPriorShares[kReuseActivities] = {0.3, 0.5, 0.65, 0.5, 0.7, 0.85};
constexpr double kPriorMedianSeconds = 60;
constexpr double kPriorSigma = 1.5;

// Share of the evidence that is left after each conclusion.
constexpr float kFading = 0.995F;

double PriorShareBefore(double seconds) {
  if (seconds <= 0) return 0;
  const double z = (std::log(seconds) - std::log(kPriorMedianSeconds)) / kPriorSigma;
  return 0.5 * std::erfc(-z / std::sqrt(2.0));
}

double WidthOf(size_t bucket) {
  if (bucket + 1 == ReuseHazards::kBuckets) return kOpenWidth * ReuseHazards::BeginOf(bucket);
  return ReuseHazards::EndOf(bucket) - ReuseHazards::BeginOf(bucket);
}

const std::array<double, ReuseHazards::kBuckets>& Widths() {
  static const auto kWidths = [] {
    std::array<double, ReuseHazards::kBuckets> widths{};
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = WidthOf(i);
    return widths;
  }();
  return kWidths;
}

// Returns the hazards of the prior of one activity.
std::array<double, ReuseHazards::kBuckets> PriorOf(size_t activity) {
  std::array<double, ReuseHazards::kBuckets> hazards{};
  const double share = kPriorShares[activity];
  for (size_t i = 0; i < hazards.size(); ++i) {
    const double begin = ReuseHazards::BeginOf(i);
    const double before = 1 - share * PriorShareBefore(begin);
    const double after = 1 - share * PriorShareBefore(begin + Widths()[i]);
    hazards[i] = std::log(before / after) / Widths()[i] + 1e-12;
  }
  return hazards;
}

}  // namespace

double ReuseHazards::EndOf(size_t bucket) {
  static const std::array<double, kBuckets> kEnds = [] {
    std::array<double, kBuckets> ends{};
    for (size_t i = 0; i + 1 < kBuckets; ++i) {
      ends[i] = std::exp2(static_cast<double>(i) / kBucketsPerOctave);
    }
    ends[kBuckets - 1] = std::numeric_limits<double>::infinity();
    return ends;
  }();
  return kEnds[bucket];
}

double ReuseHazards::BeginOf(size_t bucket) { return bucket == 0 ? 0 : EndOf(bucket - 1); }

size_t ReuseHazards::BucketOf(double seconds) {
  if (seconds < 1) return 0;
  if (seconds >= BeginOf(kBuckets - 1)) return kBuckets - 1;
  int octave = 0;
  const double rest = 2 * std::frexp(seconds, &octave);  // From 1 to 2.
  size_t bucket = static_cast<size_t>(kBucketsPerOctave) * static_cast<size_t>(octave - 1) + 1;
  for (size_t quarter = 1; quarter < kBucketsPerOctave; ++quarter) {
    if (rest >= EndOf(quarter)) ++bucket;
  }
  // A power of 2 may be off by its last bit at a bucket's edge.
  if (seconds < BeginOf(bucket)) return bucket - 1;
  return seconds >= EndOf(bucket) ? bucket + 1 : bucket;
}

// Counts the waits of each class first, so that the time in whole buckets is added once for a
// class.
void ReuseHazards::AddWaits(std::span<const Waiting> waiting, std::vector<Evidence>* to) {
  std::vector<std::array<float, kBuckets>> ends(
      kReuseClasses);  // Waits by the bucket of their end.
  for (const Waiting& wait : waiting) {
    const auto of = static_cast<size_t>(wait.of);
    const size_t bucket = BucketOf(wait.seconds);
    ends[of][bucket] += 1;
    (*to)[of].seconds[bucket] += static_cast<float>(wait.seconds - BeginOf(bucket));
  }
  for (size_t of = 0; of < kReuseClasses; ++of) {
    float longer = 0;
    for (size_t i = kBuckets; i-- > 0;) {
      (*to)[of].seconds[i] += longer * static_cast<float>(Widths()[i]);
      longer += ends[of][i];
    }
  }
}

void ReuseHazards::Learn(ReuseClass of, double seconds, bool used) {
  Evidence& evidence = lessons_.classes[static_cast<size_t>(of)];
  const size_t bucket = BucketOf(seconds);
  for (size_t i = 0; i < bucket; ++i) evidence.seconds[i] += static_cast<float>(Widths()[i]);
  evidence.seconds[bucket] += static_cast<float>(seconds - BeginOf(bucket));
  if (used) evidence.uses[bucket] += 1;
  ++new_lessons_;
}

ReuseHazards::Hazards ReuseHazards::Drawn(const Evidence& evidence, const Hazards& mean,
                                          double waits) {
  Hazards hazards;
  for (size_t i = 0; i < kBuckets; ++i) {
    const double weight = waits * Widths()[i];
    hazards[i] = (evidence.uses[i] + weight * mean[i]) / (evidence.seconds[i] + weight);
  }
  return hazards;
}

// The best stretch from a bucket on is that bucket and the best stretches that follow it, as long
// as each has more uses a second than all before it together.
ReuseHazards::Table ReuseHazards::TableFor(const Hazards& hazards) {
  struct Stretch {
    double uses = 0;     // Expected in it, of one that enters it.
    double seconds = 0;  // Waited in it.
    double passes = 0;   // The chance of no use in it.
  };
  Table table;
  double expected = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    table.hazards[i] = static_cast<float>(hazards[i]);
    table.passed[i] = static_cast<float>(expected);
    expected += hazards[i] * Widths()[i];
  }
  std::array<Stretch, kBuckets> following;  // Best stretches that follow, the nearest last.
  size_t count = 0;
  for (size_t bucket = kBuckets; bucket-- > 0;) {
    const double exponent = hazards[bucket] * Widths()[bucket];
    Stretch stretch{.uses = -std::expm1(-exponent), .passes = std::exp(-exponent)};
    stretch.seconds = stretch.uses / hazards[bucket];
    for (; count > 0; --count) {
      const Stretch& next = following[count - 1];
      if (next.uses * stretch.seconds < stretch.uses * next.seconds) break;
      stretch.uses += stretch.passes * next.uses;
      stretch.seconds += stretch.passes * next.seconds;
      stretch.passes *= next.passes;
    }
    following[count++] = stretch;
    table.worths[bucket] = static_cast<float>(stretch.uses / stretch.seconds);
  }
  std::iota(table.ranking.rbegin(), table.ranking.rend(), uint8_t{0});
  std::ranges::sort(table.ranking, {}, [&](uint8_t bucket) {
    return std::pair(table.worths[bucket], kBuckets - bucket);
  });
  return table;
}

double ReuseHazards::ExpectedUntil(const Table& table, double age) {
  const size_t bucket = BucketOf(age);
  return table.passed[bucket] + table.hazards[bucket] * (age - BeginOf(bucket));
}

double ReuseHazards::ChanceWithin(ReuseClass of, double age, double seconds) const {
  const Table& table = TableOf(of);
  return 1 - std::exp(ExpectedUntil(table, age) - ExpectedUntil(table, age + seconds));
}

void ReuseHazards::WorkOut(std::span<const Waiting> waiting) {
  std::vector<Evidence> seen = lessons_.classes;
  AddWaits(waiting, &seen);
  std::vector<Evidence> families(kReuseFamilies);
  std::vector<Evidence> activities(kReuseActivities);
  const auto add = [](const Evidence& from, Evidence* to) {
    for (size_t i = 0; i < kBuckets; ++i) {
      to->uses[i] += from.uses[i];
      to->seconds[i] += from.seconds[i];
    }
  };
  for (size_t c = 0; c < kReuseClasses; ++c) add(seen[c], &families[FamilyOf(ReuseClass(c))]);
  for (size_t f = 0; f < kReuseFamilies; ++f) add(families[f], &activities[ActivityOf(f)]);
  std::vector<Hazards> of_families(kReuseFamilies);
  std::vector<Table> tables_of_families(kReuseFamilies);
  for (size_t f = 0; f < kReuseFamilies; ++f) {
    const size_t activity = ActivityOf(f);
    of_families[f] =
        Drawn(families[f], Drawn(activities[activity], PriorOf(activity), kWaitsOfPrior),
              kWaitsOfActivity);
    tables_of_families[f] = TableFor(of_families[f]);
  }
  for (size_t c = 0; c < kReuseClasses; ++c) {
    const size_t family = FamilyOf(ReuseClass(c));
    // A class without evidence has its family's table.
    const bool known = std::ranges::any_of(seen[c].seconds, [](float s) { return s > 0; });
    tables_[c] = known ? TableFor(Drawn(seen[c], of_families[family], kWaitsOfFamily))
                       : tables_of_families[family];
  }
}

void ReuseHazards::Take(ReuseLessons lessons) {
  KVT_CHECK(conclusions() == 0 && new_lessons_ == 0);
  lessons_ = std::move(lessons);
  WorkOut({});
}

void ReuseHazards::Conclude(std::span<const Waiting> waiting) {
  WorkOut(waiting);
  for (Evidence& evidence : lessons_.classes) {
    for (float& uses : evidence.uses) uses *= kFading;
    for (float& seconds : evidence.seconds) seconds *= kFading;
  }
  ++lessons_.conclusions;
  new_lessons_ = 0;
}

}  // namespace kvtier
