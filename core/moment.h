// Moment is the time of an order of eviction: microseconds since the order began. Each use of a
// block has a moment of its own, so moments name uses as well.
#ifndef KVTIER_CORE_MOMENT_H_
#define KVTIER_CORE_MOMENT_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "absl/time/time.h"

namespace kvtier {

using Moment = uint64_t;
constexpr double SecondsBetween(Moment earlier, Moment later) {
  return static_cast<double>(later - earlier) * 1e-6;
}

// MomentClock counts the moments of one order. It stands still between calls.
class MomentClock {
 public:
  // Moves the clock, which never goes back; the first time is that at which the order begins.
  void AdvanceTo(absl::Time now) {
    began_ = std::min(began_, now);
    now_ = std::max(now_, static_cast<Moment>(absl::ToInt64Microseconds(now - began_)) + 1);
  }
  // Moves on to a moment that no other use has, and returns it.
  Moment Tick() { return ++now_; }
  Moment now() const { return now_; }

 private:
  absl::Time began_ = absl::InfiniteFuture();
  Moment now_ = 1;
};

// PackedMoment is a Moment that is aligned to 4 bytes, so that it and an item of 4 bytes take 12
// bytes and not 16.
class PackedMoment {
 public:
  constexpr PackedMoment(Moment moment)  // NOLINT(google-explicit-constructor): the same value.
      : low_(static_cast<uint32_t>(moment)), high_(static_cast<uint32_t>(moment >> 32)) {}
  constexpr operator Moment() const {  // NOLINT(google-explicit-constructor)
    return Moment{high_} << 32 | low_;
  }

 private:
  uint32_t low_;
  uint32_t high_;
};

// EarlierMoment orders packed moments in trees.
struct EarlierMoment {
  // Linear search inside nodes, as for plain numbers.
  using absl_btree_prefer_linear_node_search = std::true_type;
  bool operator()(PackedMoment a, PackedMoment b) const { return Moment{a} < Moment{b}; }
};

}  // namespace kvtier

#endif  // KVTIER_CORE_MOMENT_H_
