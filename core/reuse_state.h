// ReuseState is what an order of eviction remembers of the uses of one block, in 32 bits, and says
// in which class of ReuseHazards the block falls. The blocks of one conversation have nearly one
// state: how many requests it has had, the time between its last two, and why the last one ended.
//
// A conversation is recognised by its prefix: a request that goes on from the last blocks of an
// earlier one continues it; one that leaves an earlier one in its middle begins a new one.
#ifndef KVTIER_CORE_REUSE_STATE_H_
#define KVTIER_CORE_REUSE_STATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/reuse_hint.h"

namespace kvtier {

// The class of a block: its activity (0 to 2: never used since it came, in the first, second or a
// later request of its conversation; 3 to 5: used once, 2 to 3 times, more often), whether it ends
// its request, the gap of its conversation and the reason why the last request ended. Another
// meaning of a class is another kReuseLessonsVersion.
enum class ReuseClass : uint16_t {};
inline constexpr size_t kReuseActivities = 6;
inline constexpr size_t kReuseGaps = 6;
inline constexpr size_t kReuseFinishes = 5;
// Classes that differ in gap and reason only are one family.
inline constexpr size_t kReuseFamilies = 2 * kReuseActivities;
inline constexpr size_t kReuseClasses = kReuseFamilies * kReuseGaps * kReuseFinishes;
constexpr size_t FamilyOf(ReuseClass of) { return static_cast<size_t>(of) % kReuseFamilies; }
constexpr size_t ActivityOf(size_t family) { return family % kReuseActivities; }

struct ReuseState {
  // Largest value of a count: classes do not tell larger ones apart.
  static constexpr uint32_t kMaxCount = 15;
  // Largest height.
  static constexpr uint32_t kMaxHeight = 2;

  uint32_t uses : 4 = 0;    // Uses after the one that brought the block.
  uint32_t turn : 4 = 0;    // Requests of the conversation before the one that brought it.
  uint32_t gap : 3 = 0;     // Bucket of the time between the last two requests; 0: one so far.
  uint32_t height : 2 = 0;  // Blocks below it that came with it: 0, 1, or 2 and more.
  uint32_t finish : 3 = 0;  // FinishReason of the last request.
  // Whether a touch is still to report the use that brought the block.
  uint32_t touch_to_come : 1 = 0;
  uint32_t ended : 1 = 0;  // Whether the engine says that no request will ask for it again.
  uint32_t priority : 7 = kDefaultPriority;
  // Whether its conversation went on from a block above it.
  uint32_t left_behind : 1 = 0;
  // Whether the tier below has the block, too.
  uint32_t is_below : 1 = 0;
  // Cost of computing the block relative to the first block of its prefix, in half doublings.
  uint32_t depth_cost : 3 = 0;

  ReuseClass Class() const {
    const size_t family = Activity() + kReuseActivities * (height == 0 ? 1 : 0);
    return static_cast<ReuseClass>((finish * kReuseGaps + gap) * kReuseFamilies + family);
  }
  // Returns the worth of the block beside another of its class, as a power of the square root of 2:
  // ten steps of priority double it, one that its conversation left behind has a sixteenth, and one
  // that nobody will ask for again is worth next to nothing.
  int8_t Weight() const;
  // Returns what bringing the block back would cost, as a power of the square root of 2: the more,
  // the deeper in its prefix it is, and a quarter of that where the tier below has it.
  int8_t Cost() const;
  // Sets depth_cost from the parent's. `length` is the block's length divided by the order's
  // `attention_length`. `key_hash` serves as a random number that decides whether the cost is one
  // step more, so that it grows as fast as the prefix on average: counting the length itself would
  // take 3 bytes a block (Morris, 1978).
  void GrowDepth(uint32_t parent_cost, double length, uint64_t key_hash);
  // Counts one use, `seconds` after the last one.
  void Use(double seconds) {
    if (uses < kMaxCount) ++uses;
    gap = GapOf(seconds);
  }
  // Takes over what the engine says of the request that uses or brings the block.
  void Take(const ReuseHint& hint) {
    left_behind = 0;
    if (hint.turn.has_value() && uses == 0) turn = std::min(*hint.turn, kMaxCount);
    TakeAdvice(hint);
  }
  // Takes over what the engine says of the request's end and of the blocks' next use.
  void TakeAdvice(const ReuseHint& hint) {
    finish = static_cast<uint32_t>(hint.finish);
    ended = hint.will_not_return ? 1 : 0;
    priority = hint.priority;
  }
  // Returns the state of a block that comes for the first time and continues a block of this state.
  ReuseState OfChild() const;

 private:
  static uint32_t GapOf(double seconds) {
    // Upper bounds in seconds: a tool's answer, a quick reply, a reader's reply, a pause; rest:
    // longer.
    constexpr double kEnds[] = {10, 30, 90, 300};
    uint32_t gap = 1;
    for (const double end : kEnds) gap += seconds >= end ? 1 : 0;
    return gap;
  }
  size_t Activity() const {
    if (uses == 0) return std::min<uint32_t>(turn, 2);
    if (uses == 1) return 3;
    return uses < 4 ? 4 : 5;
  }
};
static_assert(sizeof(ReuseState) == 4);

}  // namespace kvtier

#endif  // KVTIER_CORE_REUSE_STATE_H_
