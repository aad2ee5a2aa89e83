// The claim: a plan moves every byte of every block exactly once to where the layout's
// formula has it, within every limit, whatever the layout, the slots and the order.
//
// KVTIER_PLAN_DRAWS sets the number of plans, KVTIER_TEST_SEED replays the draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "tests/testing/from_environment.h"
#include "tests/testing/test_seed.h"
#include "tests/tier_gpu/plan_layouts.h"
#include "tier_gpu/plan/planner.h"

namespace kvtier {
namespace {

using testing::kLayouts;
using testing::Layout;
using testing::LayoutSize;

constexpr uint64_t kDefaultDraws = 3000;

uint64_t Draws() { return testing::FromEnvironment("KVTIER_PLAN_DRAWS", kDefaultDraws); }

// One run of one block, by the formula: what one would copy first.
struct NaiveRun {
  uint64_t device_offset = 0;
  std::byte* host = nullptr;
  uint32_t layer = 0;
};

// A job, and what a plan of it has to do.
struct Job {
  Layout layout{};
  std::vector<PlannedBlock> blocks{};
  CopyRequest request{};

  std::vector<NaiveRun> Naive() const {
    const KvGeometry& geometry = layout.geometry;
    std::vector<NaiveRun> runs;
    for (const PlannedBlock& block : blocks) {
      std::byte* host = block.host;
      for (uint32_t layer = 0; layer < geometry.layers; ++layer) {
        for (uint32_t axis = 0; axis < geometry.axis_count(); ++axis) {
          runs.push_back({.device_offset = layout.address(layer, axis, block.slot),
                          .host = host,
                          .layer = layer});
          host += geometry.run_bytes;
        }
      }
    }
    return runs;
  }
};

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  // `host` is where host memory begins, of `host_bytes`.
  Job Next(uint64_t most_run_bytes, uint32_t most_slots, std::byte* host, uint64_t host_bytes) {
    LayoutSize size = {.layers = Number(1, 6),
                       .slots = Number(1, most_slots),
                       .run_bytes = 1 + random_() % most_run_bytes,
                       .start = uint64_t{64} * Number(0, 100)};
    if (Number(0, 2) == 0) size.run_bytes = (size.run_bytes + 4095) / 4096 * 4096;
    Job job = {.layout = kLayouts[random_() % kLayouts.size()](size)};
    DrawBlocks(&job, host, host_bytes);
    job.request = {.direction = static_cast<CopyDirection>(Number(0, 1)),
                   .order = static_cast<PlanOrder>(Number(0, 1)),
                   .paths = static_cast<LanePaths>(Number(0, 1))};
    if (Number(0, 1) == 0) {
      job.request.chunks = {.base = host, .chunk_bytes = uint64_t{4096} << Number(0, 14)};
    }
    return job;
  }

 private:
  uint32_t Number(uint32_t low, uint32_t high) {
    return static_cast<uint32_t>(low + random_() % (high - low + 1));
  }
  // Distinct slots and host places: runs upwards and downwards, or without any order.
  void DrawBlocks(Job* job, std::byte* host, uint64_t host_bytes) {
    const KvGeometry& geometry = job->layout.geometry;
    const uint64_t places = host_bytes / geometry.block_bytes();
    const auto most = static_cast<uint32_t>(std::min<uint64_t>(geometry.slots, places));
    std::vector<uint32_t> slots(most);
    std::iota(slots.begin(), slots.end(), 0);
    std::vector<uint32_t> hosts = slots;
    for (std::vector<uint32_t>* order : {&slots, &hosts}) {
      const uint32_t how = Number(0, 3);
      if (how == 0) std::ranges::shuffle(*order, random_);
      if (how == 1) std::ranges::reverse(*order);
    }
    const uint32_t count = Number(1, most);
    for (uint32_t i = 0; i < count; ++i) {
      if (count > 3 && Number(0, 5) == 0) continue;
      job->blocks.push_back({.slot = slots[i], .host = host + hosts[i] * geometry.block_bytes()});
    }
  }

  std::mt19937_64 random_;
};

// Every run is covered by pieces of segments that agree with it, no byte twice.
void ExpectEveryByteOnce(const Job& job, const CopyPlan& plan) {
  std::map<std::byte*, const NaiveRun*> by_host;
  const std::vector<NaiveRun> naive = job.Naive();
  for (const NaiveRun& run : naive) by_host[run.host] = &run;
  ASSERT_EQ(by_host.size(), naive.size());
  std::vector<CopySegment> sorted = plan.segments;
  std::ranges::sort(sorted, {}, &CopySegment::host);
  const uint64_t run_bytes = job.layout.geometry.run_bytes;
  uint64_t bytes = 0;
  const std::byte* end = nullptr;
  for (const CopySegment& segment : sorted) {
    ASSERT_GT(segment.bytes, 0);
    ASSERT_GE(segment.host, end) << "a byte twice";
    end = segment.host + segment.bytes;
    bytes += segment.bytes;
    for (std::byte* at = segment.host; at < end;) {
      auto found = by_host.upper_bound(at);
      ASSERT_NE(found, by_host.begin()) << "outside of every block";
      const NaiveRun& run = *(--found)->second;
      ASSERT_LT(at, run.host + run_bytes) << "outside of every block";
      ASSERT_EQ(segment.device_offset + static_cast<uint64_t>(at - segment.host),
                run.device_offset + static_cast<uint64_t>(at - run.host));
      at = run.host + run_bytes;
    }
  }
  ASSERT_EQ(bytes, naive.size() * run_bytes);
}

void ExpectWithinLimits(const Job& job, const CopyPlan& plan) {
  size_t next = 0;
  for (const PlannedBatch& batch : plan.batches) {
    ASSERT_EQ(batch.first_segment, next);
    ASSERT_GT(batch.segments, 0);
    next += batch.segments;
    uint64_t bytes = 0;
    for (const CopySegment& segment : plan.SegmentsOf(batch)) bytes += segment.bytes;
    ASSERT_EQ(batch.bytes, bytes);
    ASSERT_LE(batch.segments, kMaxCopySegments);
    ASSERT_TRUE(batch.bytes <= kMaxCopyBytes || batch.segments == 1);
    ASSERT_TRUE(job.request.paths == LanePaths::kAll || batch.path == CopyPath::kBatch);
  }
  ASSERT_EQ(next, plan.segments.size());
  const PinnedChunks& chunks = job.request.chunks;
  for (const CopySegment& segment : plan.segments) {
    const bool registered =
        std::ranges::any_of(job.layout.registered, [&segment](const DeviceRange& range) {
          return segment.device_offset >= range.offset &&
                 segment.device_offset + segment.bytes <= range.offset + range.bytes;
        });
    ASSERT_TRUE(registered);
    if (chunks.chunk_bytes == 0) continue;
    const auto first = static_cast<uint64_t>(segment.host - chunks.base);
    ASSERT_EQ(first / chunks.chunk_bytes, (first + segment.bytes - 1) / chunks.chunk_bytes);
  }
}

// Neighbours of a batch that could be one segment are one.
void ExpectNothingLeftToJoin(const Job& job, const CopyPlan& plan) {
  const PinnedChunks& chunks = job.request.chunks;
  for (const PlannedBatch& batch : plan.batches) {
    const auto segments = plan.SegmentsOf(batch);
    for (size_t i = 1; i < segments.size(); ++i) {
      const CopySegment& a = segments[i - 1];
      const CopySegment& b = segments[i];
      const bool up = a.host + a.bytes == b.host && a.device_offset + a.bytes == b.device_offset;
      const bool down = b.host + b.bytes == a.host && b.device_offset + b.bytes == a.device_offset;
      if (!up && !down) continue;
      const std::byte* border = up ? b.host : a.host;
      const bool at_border = chunks.chunk_bytes > 0 &&
                             static_cast<uint64_t>(border - chunks.base) % chunks.chunk_bytes == 0;
      ASSERT_TRUE(at_border || a.bytes + b.bytes > kMaxCopyBytes);
    }
  }
}

// A layer is complete no earlier than a batch says, and groups are as large as they are.
void ExpectLayersComplete(const Job& job, const CopyPlan& plan) {
  const KvGeometry& geometry = job.layout.geometry;
  std::vector<uint64_t> left(geometry.layers, geometry.layer_bytes() * job.blocks.size());
  std::map<std::byte*, uint32_t> block_starts;
  for (const PlannedBlock& block : job.blocks) block_starts[block.host] = block.slot;
  uint32_t complete = 0;
  uint64_t group_bytes = 0;
  for (const PlannedBatch& batch : plan.batches) {
    for (const CopySegment& segment : plan.SegmentsOf(batch)) {
      for (std::byte* at = segment.host; at < segment.host + segment.bytes;) {
        std::byte* const block = std::prev(block_starts.upper_bound(at))->first;
        const uint64_t layer = static_cast<uint64_t>(at - block) / geometry.layer_bytes();
        std::byte* const layer_end = block + (layer + 1) * geometry.layer_bytes();
        std::byte* const end = std::min(segment.host + segment.bytes, layer_end);
        left[layer] -= static_cast<uint64_t>(end - at);
        at = end;
      }
    }
    group_bytes += batch.bytes;
    ASSERT_GE(batch.layers_complete, complete);
    for (uint32_t layer = 0; layer < batch.layers_complete; ++layer) ASSERT_EQ(left[layer], 0);
    if (batch.layers_complete == complete) continue;
    const bool single = batch.layers_complete == complete + 1;
    const bool all = complete == 0 && batch.layers_complete == geometry.layers;
    ASSERT_TRUE(group_bytes >= kMinLayerGroupBytes || single || all);
    ASSERT_TRUE(all || job.request.order == PlanOrder::kLayerWise);
    complete = batch.layers_complete;
    group_bytes = 0;
  }
  ASSERT_EQ(complete, geometry.layers);
}

CopyPlan PlanOf(const Job& job) {
  EXPECT_EQ(job.layout.geometry.Validate(job.layout.registered), absl::OkStatus());
  CopyRequest request = job.request;
  request.blocks = job.blocks;
  const auto plan = PlanCopies(job.layout.geometry, request);
  EXPECT_EQ(plan.status(), absl::OkStatus());
  return plan.value_or(CopyPlan{});
}

// Large blocks, addresses only.
TEST(PlanModelTest, EveryByteOnceAndWithinEveryLimit) {
  constexpr uint64_t kHostBytes = uint64_t{8} << 30;
  auto* const host = reinterpret_cast<std::byte*>(uintptr_t{1} << 40);  // NOLINT
  Draw draw(testing::TestSeed());
  size_t runs = 0;
  size_t segments = 0;
  size_t batches = 0;
  const uint64_t draws = Draws();
  for (uint64_t i = 0; i < draws; ++i) {
    const uint64_t most_run_bytes = uint64_t{1} << (8 + i % 15);  // To 4 MiB.
    const Job job = draw.Next(most_run_bytes, i % 10 == 0 ? 1500 : 60, host, kHostBytes);
    if (job.blocks.empty()) continue;
    const CopyPlan plan = PlanOf(job);
    ExpectEveryByteOnce(job, plan);
    ExpectWithinLimits(job, plan);
    ExpectNothingLeftToJoin(job, plan);
    ExpectLayersComplete(job, plan);
    ASSERT_FALSE(HasFailure()) << "draw " << i << ": " << job.layout.name;
    runs += job.blocks.size() * job.layout.geometry.bases.size();
    segments += plan.segments.size();
    batches += plan.batches.size();
  }
  std::printf("%llu plans: %zu runs in %zu segments in %zu batches\n",
              static_cast<unsigned long long>(draws), runs, segments, batches);
}

// Small blocks, and the bytes move: both ways, beside what the formula copies.
TEST(PlanModelTest, BytesArriveAsOneByOne) {
  constexpr uint64_t kHostBytes = 1 << 20;
  std::vector<std::byte> host(kHostBytes);
  Draw draw(testing::TestSeed());
  const uint64_t draws = Draws() / 10;
  for (uint64_t i = 0; i < draws; ++i) {
    const Job job = draw.Next(700, 30, host.data(), kHostBytes);
    if (job.blocks.empty()) continue;
    std::vector<std::byte> device(job.layout.end);
    for (size_t j = 0; j < host.size(); ++j) host[j] = static_cast<std::byte>(j * 31 + i);
    for (size_t j = 0; j < device.size(); ++j) device[j] = static_cast<std::byte>(j * 17 + 5);
    const bool in = job.request.direction == CopyDirection::kHostToDevice;
    std::vector<std::byte> expected = in ? device : host;
    const uint64_t run_bytes = job.layout.geometry.run_bytes;
    for (const NaiveRun& run : job.Naive()) {
      std::byte* const to = expected.data() + (in ? static_cast<ptrdiff_t>(run.device_offset)
                                                  : run.host - host.data());
      std::memcpy(to, in ? run.host : device.data() + run.device_offset, run_bytes);
    }
    for (const CopySegment& segment : PlanOf(job).segments) {
      std::byte* const there = device.data() + segment.device_offset;
      std::memcpy(in ? there : segment.host, in ? segment.host : there, segment.bytes);
    }
    ASSERT_TRUE(expected == (in ? device : host)) << "draw " << i << ": " << job.layout.name;
  }
}

}  // namespace
}  // namespace kvtier
