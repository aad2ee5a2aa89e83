#include "core/reuse_state.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace kvtier {
namespace {

// Steps of priority that make one step of weight, which is half a doubling.
constexpr int kPriorityPerWeight = 5;
constexpr int8_t kEndedWeight = -60;
// Four in a hundred blocks that agents' sessions left behind were asked for again.
constexpr int kLeftBehindWeight = -8;
// A disk brings a block back in some quarter of the time that computing it takes.
constexpr int kBelowCost = -4;
constexpr uint32_t kMaxDepthCost = 7;

}  // namespace

int8_t ReuseState::Weight() const {
  if (ended != 0) return kEndedWeight;
  const int steps = (static_cast<int>(priority) - int{kDefaultPriority}) / kPriorityPerWeight;
  return static_cast<int8_t>(steps + (left_behind != 0 ? kLeftBehindWeight : 0));
}

int8_t ReuseState::Cost() const {
  return static_cast<int8_t>(static_cast<int>(depth_cost) + (is_below != 0 ? kBelowCost : 0));
}

void ReuseState::GrowDepth(uint32_t parent_cost, double length, uint64_t key_hash) {
  depth_cost = parent_cost;
  if (depth_cost == kMaxDepthCost) return;
  // A block after n attention lengths costs 1 + n, which is rounded to half doublings.
  const auto end = [](double steps) { return std::exp2((steps + 0.5) / 2) - 1; };
  const double begin = depth_cost == 0 ? 0 : end(depth_cost - 1.0);
  const double step = end(depth_cost) - begin;
  if (static_cast<double>(key_hash) * 0x1p-64 * step < length) ++depth_cost;
}

ReuseState ReuseState::OfChild() const {
  ReuseState child;
  if (uses == 0) {  // Parent and child came in the same request.
    child.turn = turn;
    child.gap = gap;
  } else if (height < kMaxHeight) {
    child.turn = std::min<uint32_t>(uint32_t{turn} + uses, kMaxCount);
    child.gap = gap;
  }
  return child;
}

}  // namespace kvtier
