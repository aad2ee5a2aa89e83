#include "core/reuse_state.h"

#include <algorithm>
#include <cstdint>

namespace kvtier {
namespace {

// Ends of the gaps in seconds: a tool's answer, a quick reply, a reader's, a pause, a longer one.
constexpr double kGapEnds[] = {10, 30, 90, 300};
// Steps of priority that make one step of weight, which is half a doubling.
constexpr int kPriorityPerWeight = 5;
constexpr int8_t kEndedWeight = -60;

uint32_t GapOf(double seconds) {
  uint32_t gap = 1;
  for (const double end : kGapEnds) gap += seconds >= end ? 1 : 0;
  return gap;
}

uint32_t ActivityOf(uint32_t uses, uint32_t turn) {
  if (uses == 0) return std::min<uint32_t>(turn, 2);
  if (uses == 1) return 3;
  return uses < 4 ? 4 : 5;
}

}  // namespace

ReuseClass ReuseState::Class() const {
  const size_t family = ActivityOf(uses, turn) + kReuseActivities * (height == 0 ? 1 : 0);
  return static_cast<ReuseClass>((finish * kReuseGaps + gap) * kReuseFamilies + family);
}

int8_t ReuseState::Weight() const {
  if (ended != 0) return kEndedWeight;
  return static_cast<int8_t>((static_cast<int>(priority) - int{kDefaultPriority}) /
                             kPriorityPerWeight);
}

void ReuseState::Use(double seconds) {
  if (uses < kMaxCount) ++uses;
  gap = GapOf(seconds);
}

void ReuseState::Take(const ReuseHint& hint) {
  if (hint.turn.has_value() && uses == 0) turn = std::min(*hint.turn, kMaxCount);
  TakeAdvice(hint);
}

void ReuseState::TakeAdvice(const ReuseHint& hint) {
  finish = static_cast<uint32_t>(hint.finish);
  ended = hint.will_not_return ? 1 : 0;
  priority = hint.priority;
}

ReuseState ReuseState::OfChild() const {
  ReuseState child;
  if (uses == 0) {  // They came in the same request.
    child.turn = turn;
    child.gap = gap;
  } else if (height < 2) {
    child.turn = std::min<uint32_t>(uint32_t{turn} + uses, kMaxCount);
    child.gap = gap;
  }
  return child;
}

}  // namespace kvtier
