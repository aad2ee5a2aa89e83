#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>

#include "tests/testing/test_seed.h"
#include "tests/tier_gpu/plan_layouts.h"
#include "tier_gpu/plan/geometry.h"

namespace kvtier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kLayouts;
using testing::Layout;
using testing::LayoutMaker;
using testing::LayoutSize;

constexpr LayoutSize kSize = {.layers = 3, .slots = 5, .run_bytes = 128, .start = 4096};

// Checks that Validate() refuses a change of one field with `message`.
void ExpectRefused(const KvGeometry& geometry, const std::vector<DeviceRange>& registered,
                   const std::string& message) {
  const absl::Status status = geometry.Validate(registered);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
}

TEST(KvGeometryTest, EveryLayoutInUseIsValid) {
  for (const LayoutMaker make : kLayouts) {
    const Layout layout = make(kSize);
    EXPECT_EQ(layout.geometry.Validate(layout.registered), absl::OkStatus()) << layout.name;
  }
}

TEST(KvGeometryTest, RunsAreWhereTheEngineHasThemAndNeighboursAreOne) {
  for (const LayoutMaker make : kLayouts) {
    const Layout layout = make(kSize);
    uint64_t done = 0;
    for (const KvRun& run : layout.geometry.Runs(4)) {
      const uint64_t number = done / kSize.run_bytes;
      const uint32_t axes = layout.geometry.axis_count();
      EXPECT_EQ(run.device_offset, layout.address(number / axes, number % axes, 4)) << layout.name;
      done += run.bytes;
    }
    EXPECT_EQ(done, layout.geometry.block_bytes()) << layout.name;
  }
  EXPECT_EQ(testing::CrossLayerLayout(kSize).geometry.Runs(4).size(), 1) << "all are adjacent";
}

TEST(KvGeometryTest, FieldsOutOfTheirRangeAreNamed) {
  const Layout layout = testing::PerLayerLayout(kSize);
  const auto changed = [&layout](auto change) {
    KvGeometry geometry = layout.geometry;
    change(geometry);
    return geometry;
  };
  const auto expect = [&](auto change, const std::string& message) {
    ExpectRefused(changed(change), layout.registered, message);
  };
  expect([](KvGeometry& g) { g.layers = 0; }, "layers is 0");
  expect([](KvGeometry& g) { g.layers = 4097; }, "layers is 4097");
  expect([](KvGeometry& g) { g.slots = 0; }, "slots is 0");
  expect([](KvGeometry& g) { g.run_bytes = 0; }, "run_bytes is 0");
  expect([](KvGeometry& g) { g.run_bytes = uint64_t{1} << 61; },
         "run_bytes is 2305843009213693952");
  expect([](KvGeometry& g) { g.run_bytes = (64 << 20) / 6 + 1; }, "run_bytes is 11184811");
  expect([](KvGeometry& g) { g.block_stride = 127; }, "block_stride is 127");
  expect([](KvGeometry& g) { g.block_stride = uint64_t{1} << 62; },
         "block_stride is 4611686018427387904");
  expect([](KvGeometry& g) { g.bases.pop_back(); }, "bases has 5 entries; must have 6");
  expect([](KvGeometry& g) { g.axes = KvAxes::kFused; }, "bases has 6 entries; must have 3");
}

TEST(KvGeometryTest, ATensorThatLeavesItsRangeIsRefused) {
  for (const LayoutMaker make : kLayouts) {
    Layout layout = make(kSize);
    layout.registered.back().bytes -= 1;
    ExpectRefused(layout.geometry, layout.registered, "must lie in a registered range");
    ExpectRefused(layout.geometry, {}, "bases[0] (layer 0, axis 0)");
  }
}

TEST(KvGeometryTest, ATensorInFrontOfItsRangeIsRefused) {
  Layout layout = testing::PerLayerLayout(kSize);
  layout.geometry.bases[2] -= 1;
  ExpectRefused(layout.geometry, layout.registered, "bases[2] (layer 1, axis 0)");
}

TEST(KvGeometryTest, ATensorAcrossTwoRangesIsRefused) {
  const KvGeometry geometry = {.axes = KvAxes::kFused,
                               .layers = 1,
                               .slots = 2,
                               .run_bytes = 4096,
                               .block_stride = 4096,
                               .bases = {0}};
  ExpectRefused(geometry, {{.offset = 0, .bytes = 4096}, {.offset = 4096, .bytes = 4096}},
                "bases[0]");
}

TEST(KvGeometryTest, ATensorPast64BitsIsRefused) {
  Layout layout = testing::PerLayerLayout(kSize);
  layout.geometry.bases[5] = std::numeric_limits<uint64_t>::max() - 100;
  const std::vector<DeviceRange> all = {
      {.offset = 0, .bytes = std::numeric_limits<uint64_t>::max()}};
  ExpectRefused(layout.geometry, all, "must fit in 64 bits");
}

TEST(KvGeometryTest, TensorsThatOverlapAreRefused) {
  Layout layout = testing::PerLayerLayout(kSize);
  layout.geometry.bases[1] = layout.geometry.bases[0] + 127;
  ExpectRefused(layout.geometry, layout.registered, "bases[1] (layer 0, axis 1) is 4223; its runs");
  layout.geometry.bases[1] = layout.geometry.bases[0];
  ExpectRefused(layout.geometry, layout.registered, "overlap");
}

TEST(KvGeometryTest, OverlapsAreWhatPairsOfRunsSay) {
  std::mt19937_64 random(testing::TestSeed());
  const std::vector<DeviceRange> all = {{.offset = 0, .bytes = 1 << 20}};
  int refused = 0;
  constexpr int kDraws = 20'000;
  for (int draw = 0; draw < kDraws; ++draw) {
    KvGeometry geometry = {.axes = KvAxes::kApart,
                           .layers = 1,
                           .slots = static_cast<uint32_t>(1 + random() % 4),
                           .run_bytes = 1 + random() % 6};
    geometry.block_stride = geometry.run_bytes + random() % 8;
    geometry.bases = {random() % 40, random() % 40};
    bool overlap = false;
    for (uint32_t a = 0; a < geometry.slots; ++a) {
      for (uint32_t b = 0; b < geometry.slots; ++b) {
        const uint64_t x = geometry.bases[0] + a * geometry.block_stride;
        const uint64_t y = geometry.bases[1] + b * geometry.block_stride;
        overlap |= x < y + geometry.run_bytes && y < x + geometry.run_bytes;
      }
    }
    ASSERT_EQ(geometry.Validate(all).ok(), !overlap)
        << "draw " << draw << ": slots " << geometry.slots << ", run " << geometry.run_bytes
        << ", stride " << geometry.block_stride << ", bases " << geometry.bases[0] << ", "
        << geometry.bases[1];
    refused += overlap ? 1 : 0;
  }
  EXPECT_GT(refused, kDraws / 10);
  EXPECT_LT(refused, kDraws * 9 / 10);
}

TEST(KvGeometryTest, BlocksWithOtherBytesInsideTheirRunsAreOtherSpaces) {
  std::vector<std::string> names;
  for (const KvAxes axes : {KvAxes::kApart, KvAxes::kFused}) {
    for (const KvOrder order : {KvOrder::kTokenHead, KvOrder::kHeadToken}) {
      names.push_back(SpaceLayout(axes, order));
    }
  }
  names.push_back(SpaceLayout(KvAxes::kLatent, KvOrder::kTokenHead));
  EXPECT_THAT(names,
              ElementsAre("layer,kv,token,head,dim", "layer,kv,head,token,dim",
                          "layer,token,head,kv,dim", "layer,head,token,kv,dim", "layer,token,row"));
}

}  // namespace
}  // namespace kvtier
