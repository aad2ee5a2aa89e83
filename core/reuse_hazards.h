// ReuseHazards learns, for classes of blocks, how the chance of a use falls with the time
// since the last one, and says what the room of a block is worth: the most uses a tick
// that may be expected of it, over any stretch of time to come. So a block that will be
// used soon is worth much, one that is due later little, and one whose time has passed
// next to nothing, whatever came first or last.
//
// A hazard is uses over ticks waited, in buckets of age that double every two. Classes
// with little evidence are drawn toward all of them together, and those toward a chance
// that is the same for each bucket, which makes whoever waited longest worth least: LRU.
// Time is counted in ticks of the caller's, such as uses, so that no clock is needed.
//
// Pure and deterministic; some 1.2 KB a class. Executor thread only.
#ifndef KVTIER_CORE_REUSE_HAZARDS_H_
#define KVTIER_CORE_REUSE_HAZARDS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvtier {

class ReuseHazards {
 public:
  // REQUIRES: classes > 0.
  explicit ReuseHazards(size_t classes);
  // A block of the class waited `age` ticks for its next use; `used` false: then it was
  // watched no longer. REQUIRES of both: the class exists.
  void Learn(size_t of_class, uint64_t age, bool used);
  // Of a block of the class that has waited `age` ticks; positive. O(1).
  double Worth(size_t of_class, uint64_t age) const;

 private:
  // Every two are an octave of age, from 16 ticks to 2^28; the last is open.
  static constexpr size_t kBuckets = 48;
  struct Evidence {
    std::array<double, kBuckets> uses{};
    std::array<double, kBuckets> ticks{};  // Waited in that bucket, by all.
  };
  using Worths = std::array<double, kBuckets>;

  static double EndOf(size_t bucket);
  static double WidthOf(size_t bucket);
  static size_t BucketOf(uint64_t age);
  static void Add(double age, size_t bucket, bool used, Evidence* to);
  // Works out all worths anew, every so many lessons.
  void Conclude();

  std::vector<Evidence> classes_;
  Evidence all_;
  std::vector<Worths> worths_;
  size_t lessons_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_REUSE_HAZARDS_H_
