// FrequencySketch estimates how often each block was used lately: the count-min sketch of TinyLFU
// (Einziger, Friedman and Manes, ACM Transactions on Storage 2017), with the sizes of the Caffeine
// library. When it has counted ten uses for each block of its capacity, all counts are halved.
#ifndef KVTIER_BENCH_POLICY_FREQUENCY_SKETCH_H_
#define KVTIER_BENCH_POLICY_FREQUENCY_SKETCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvtier::bench {

class FrequencySketch {
 public:
  // Makes an empty sketch. `capacity` is the number of blocks whose uses it should tell apart.
  explicit FrequencySketch(size_t capacity);
  void Count(uint32_t block);
  // Returns the estimate, up to kMaxCount. It is never below the true count, with the same
  // halvings.
  uint8_t EstimateOf(uint32_t block) const;

  static constexpr uint8_t kMaxCount = 15;

 private:
  static constexpr size_t kRows = 4;
  void Halve();
  std::array<size_t, kRows> PlacesOf(uint32_t block) const;

  const size_t uses_to_halve_;
  const size_t width_;           // Power of two.
  size_t uses_ = 0;              // Number of uses counted, halved with the counts.
  std::vector<uint8_t> counts_;  // Counters, one row after another.
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_FREQUENCY_SKETCH_H_
