#include "bench/policy/frequency_sketch.h"

#include <algorithm>
#include <bit>

#include "bench/trace.h"

namespace kvtier::bench {
namespace {

// Constants of Caffeine.
constexpr size_t kUsesForBlock = 10;
constexpr size_t kCountersForBlock = 16;

}  // namespace

FrequencySketch::FrequencySketch(size_t capacity)
    : uses_to_halve_(kUsesForBlock * capacity),
      width_(kCountersForBlock / kRows * std::bit_ceil(capacity)),
      counts_(kRows * width_, 0) {}

std::array<size_t, FrequencySketch::kRows> FrequencySketch::PlacesOf(uint32_t block) const {
  const BlockKey key = KeyOf(block);
  std::array<size_t, kRows> places;
  for (size_t row = 0; row < kRows; ++row) {
    // Each row uses other bits of the hash.
    places[row] = row * width_ + (std::rotr(key.lo, static_cast<int>(16 * row)) & (width_ - 1));
  }
  return places;
}

void FrequencySketch::Count(uint32_t block) {
  for (const size_t place : PlacesOf(block)) {
    counts_[place] = std::min<uint8_t>(counts_[place] + 1, kMaxCount);
  }
  if (++uses_ == uses_to_halve_) Halve();
}

uint8_t FrequencySketch::EstimateOf(uint32_t block) const {
  uint8_t least = kMaxCount;
  for (const size_t place : PlacesOf(block)) least = std::min(least, counts_[place]);
  return least;
}

void FrequencySketch::Halve() {
  for (uint8_t& count : counts_) count /= 2;
  uses_ /= 2;
}

}  // namespace kvtier::bench
