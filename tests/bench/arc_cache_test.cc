#include "bench/policy/arc_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "tests/bench/small_traces.h"
#include "tests/testing/test_seed.h"

namespace kvtier::bench {
namespace {

// PlainArc is the algorithm of Figure 4 of the paper, case by case, with queues that are searched.
class PlainArc {
 public:
  explicit PlainArc(double capacity) : c_(capacity) {}

  // Returns whether `x` was a hit.
  bool Request(uint32_t x) {
    if (Take(x, &t1_) || Take(x, &t2_)) {
      t2_.push_back(x);
      return true;
    }
    if (Has(x, b1_)) {
      p_ = std::min(c_, p_ + std::max(1.0, SizeOf(b2_) / SizeOf(b1_)));
      Replace(false);
      Take(x, &b1_);
      t2_.push_back(x);
    } else if (Has(x, b2_)) {
      p_ = std::max(0.0, p_ - std::max(1.0, SizeOf(b1_) / SizeOf(b2_)));
      Replace(true);
      Take(x, &b2_);
      t2_.push_back(x);
    } else {
      const double l1 = SizeOf(t1_) + SizeOf(b1_);
      const double l2 = SizeOf(t2_) + SizeOf(b2_);
      if (l1 == c_ && SizeOf(t1_) < c_) {
        b1_.pop_front();
        Replace(false);
      } else if (l1 == c_) {
        t1_.pop_front();
      } else if (l1 + l2 >= c_) {
        if (l1 + l2 == 2 * c_) b2_.pop_front();
        Replace(false);
      }
      t1_.push_back(x);
    }
    return false;
  }

 private:
  using Queue = std::deque<uint32_t>;  // Least recent first.
  static double SizeOf(const Queue& queue) { return static_cast<double>(queue.size()); }
  static bool Has(uint32_t x, const Queue& queue) {
    return std::ranges::find(queue, x) != queue.end();
  }
  static bool Take(uint32_t x, Queue* queue) { return std::erase(*queue, x) > 0; }
  void Replace(bool is_in_b2) {
    const bool from_t1 = !t1_.empty() && (SizeOf(t1_) > p_ || (is_in_b2 && SizeOf(t1_) == p_));
    Queue& from = from_t1 ? t1_ : t2_;
    Queue& to = from_t1 ? b1_ : b2_;
    to.push_back(from.front());
    from.pop_front();
  }

  const double c_;
  double p_ = 0;
  Queue t1_, t2_, b1_, b2_;
};

TEST(ArcCacheTest, HitsWhatThePaperAlgorithmHits) {
  std::mt19937_64 random(testing::TestSeed());
  for (const size_t capacity : {1, 2, 5, 16}) {
    std::vector<std::vector<uint64_t>> requests;
    for (uint64_t i = 0; i < 6000; ++i) {
      // Some blocks are asked for more than others, and scans pass through.
      const uint64_t block = random() % (1 + random() % 40);
      requests.push_back({i % 100 < 25 ? 1000 + i : block});
    }
    const Trace trace = TraceOf(requests);
    ArcCache cache(trace.parents.size(), capacity);
    PlainArc plain(static_cast<double>(capacity));
    for (size_t i = 0; i < trace.requests.size(); ++i) {
      const bool hit = cache.Request(trace.requests[i]) > 0;
      ASSERT_EQ(hit, plain.Request(trace.requests[i].blocks[0])) << capacity << ", " << i;
    }
  }
}

TEST(ArcCacheTest, BlocksUsedAgainOutliveAScan) {
  EXPECT_EQ(HitsOf("arc", 4, "ABABcdefghijAB"), "--hh--------hh");
}

}  // namespace
}  // namespace kvtier::bench
