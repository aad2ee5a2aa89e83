// ReuseHazards learns, for each class of blocks, how the chance of a use falls with the time since
// the last one, and says what the room of a block is worth: the most uses a second that it may be
// expected to serve, over any stretch of time to come. So a block that will be used soon is worth
// much, one that is due later little, and one whose time has passed next to nothing, whatever came
// first or last. (This is the index of Gittins, 1979, for a reward that comes once.)
//
// A hazard is uses over seconds waited, in buckets of age, four to an octave. Blocks that still
// wait count for the time that they have waited, so that those that never come back are not taken
// for those that do. A class with little evidence is drawn toward its family, a family toward its
// activity, and an activity toward a prior that no trace was fitted to: a block that was used is
// likelier to be used again, most are within minutes, and old ones never.
//
// Old evidence fades, so that another kind of traffic is learnt within some thousand lessons.
//
// Pure and deterministic. Executor thread only. Memory is fixed: kReuseClasses tables of 1.7 KB.
#ifndef KVTIER_CORE_REUSE_HAZARDS_H_
#define KVTIER_CORE_REUSE_HAZARDS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/reuse_lessons.h"
#include "core/reuse_state.h"

namespace kvtier {

class ReuseHazards {
 public:
  static constexpr size_t kBuckets = kReuseBuckets;
  // A block that waits for its next use, and the time that it has waited so far.
  struct Waiting {
    ReuseClass of{};
    double seconds = 0;
  };

  ReuseHazards() : tables_(kReuseClasses) { WorkOut({}); }
  // Goes on from what others have learnt, and works out all worths from it. REQUIRES: nothing was
  // learnt here so far.
  void Take(ReuseLessons lessons);
  // Returns what was learnt, for another to Take().
  const ReuseLessons& lessons() const { return lessons_; }
  // Learns that a block of the class waited `seconds` for its next use. If `used` is false, no use
  // came in that time, and the block is watched no longer.
  void Learn(ReuseClass of, double seconds, bool used);
  // Works out all worths again from what was learnt and from those that wait, which count for this
  // time only. Costs 0.2 ms, and 0.6 ms if all classes are in use; to be called after each few
  // hundred lessons.
  void Conclude(std::span<const Waiting> waiting);
  // Returns the number of calls of Conclude() so far, those of the lessons taken included. When it
  // changes, WorthQueues looks for its cheapest items again.
  uint64_t conclusions() const { return lessons_.conclusions; }
  // Lessons since the last Conclude().
  size_t new_lessons() const { return new_lessons_; }

  // Returns the worth of a block of the class in that bucket of age; positive. O(1).
  double Worth(ReuseClass of, size_t bucket) const { return TableOf(of).worths[bucket]; }
  // Returns the chance that a block of the class that waited `age` seconds for its next use has it
  // within `seconds` from now. O(1).
  double ChanceWithin(ReuseClass of, double age, double seconds) const;
  // Returns the buckets of the class from the least worth to the most; of two alike, the older one
  // comes first.
  const std::array<uint8_t, kBuckets>& Ranking(ReuseClass of) const { return TableOf(of).ranking; }
  static size_t BucketOf(double seconds);
  // Returns the age at which the bucket begins or ends; the last one ends at infinity.
  static double BeginOf(size_t bucket);
  static double EndOf(size_t bucket);

 private:
  using Evidence = HazardEvidence;
  struct Table {
    std::array<float, kBuckets> worths{};
    std::array<uint8_t, kBuckets> ranking{};
    std::array<float, kBuckets> hazards{};  // Uses a second.
    std::array<float, kBuckets> passed{};   // Uses expected before the bucket begins.
  };
  using Hazards = std::array<double, kBuckets>;

  void WorkOut(std::span<const Waiting> waiting);
  const Table& TableOf(ReuseClass of) const { return tables_[static_cast<size_t>(of)]; }
  // Adds the time waited in each bucket to the evidence of each class.
  static void AddWaits(std::span<const Waiting> waiting, std::vector<Evidence>* to);
  // Returns hazards of the evidence, drawn toward `mean` as if `mean` had been seen in `waits`
  // waits.
  static Hazards Drawn(const Evidence& evidence, const Hazards& mean, double waits);
  // Returns the number of uses expected until that age of a block that was not used before that
  // age.
  static double ExpectedUntil(const Table& table, double age);
  static Table TableFor(const Hazards& hazards);

  ReuseLessons lessons_{.classes = std::vector<Evidence>(kReuseClasses)};
  std::vector<Table> tables_;
  size_t new_lessons_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_REUSE_HAZARDS_H_
