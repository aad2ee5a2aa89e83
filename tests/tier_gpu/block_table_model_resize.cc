// Implements BlockTableModel's pool that shrinks and grows.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tier_gpu/block_table_model.h"

namespace kvtier::testing {

bool BlockTableModel::Close() {
  const size_t first = pool_ / 2 + random_.Below(pool_ - pool_ / 2);
  slots_.CloseFrom(static_cast<uint32_t>(first));
  const bool refused = first >= open_;
  open_ = std::min(open_, first);
  EXPECT_EQ(slots_.closed_from(), open_);
  EXPECT_TRUE(slots_.closed());
  return refused;
}

bool BlockTableModel::Reopen() {
  const bool refused = open_ == pool_;
  slots_.Reopen();
  open_ = pool_;
  EXPECT_FALSE(slots_.closed());
  return refused;
}

// Cuts some of the closed slots at the pool's end that nobody holds or reads any more.
bool BlockTableModel::Cut() {
  size_t end = pool_;
  while (end > open_ && UnusedSlots(end - 1, end) == 1) --end;
  EXPECT_EQ(slots_.closed_use_end(), end);
  const size_t least = std::max<size_t>(end, 1);
  if (least == pool_) return true;
  const size_t left = least + random_.Below(pool_ - least);
  slots_.CutTo(left);
  EXPECT_EQ(slots_.slots(), left);
  for (size_t i = left; i < pool_; ++i) released_[i] = {};
  pool_ = left;
  return false;
}

bool BlockTableModel::Grow() {
  if (open_ < pool_ || pool_ == kSlots) return true;
  const size_t more = 1 + random_.Below(kSlots - pool_);
  slots_.Grow(static_cast<uint32_t>(more));
  pool_ += more;
  open_ = pool_;
  EXPECT_EQ(slots_.slots(), pool_);
  return false;
}

}  // namespace kvtier::testing
