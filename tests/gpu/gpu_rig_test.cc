// What the benchmark's proofs see: each of these ways was right once, so that right bytes lie
// everywhere, and then is not.
#include "bench/gpu_rig.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "bench/rig_cell.h"

namespace kvtier::bench {
namespace {

constexpr uint64_t kRigBytes = 8 << 20;
constexpr uint64_t kSegment = 64 << 10;

class GpuRigTest : public ::testing::Test {
 protected:
  void Prove(const CopyWay& way) { rig_->Prove(cell_.in, cell_.out, way); }

  std::unique_ptr<GpuRig> rig_ = *GpuRig::Open("emulated", kRigBytes);
  const RigCell cell_{rig_.get(), kSegment, 64, CopyPath::kBatch};
  const CopyWay right_ = rig_->ByBatches(cell_.in_batches, cell_.out_batches);
  const std::function<double()> nothing_ = [] { return 1e-6; };
};

TEST_F(GpuRigTest, AWayThatMovesAllIsProved) {
  Prove(right_);
  Prove(right_);
}

TEST_F(GpuRigTest, AWayThatSendsNothingIsReported) {
  Prove(right_);
  EXPECT_DEATH(Prove({nothing_, right_.out}), "CHECK failed");
}

TEST_F(GpuRigTest, AWayThatFetchesNothingIsReported) {
  Prove(right_);
  EXPECT_DEATH(Prove({right_.in, nothing_}), "CHECK failed");
}

TEST_F(GpuRigTest, AWayThatSendsAllButTheLastSegmentIsReported) {
  Prove(right_);
  const RigBatch most = {CopyPath::kBatch, std::span(cell_.in).first(cell_.in.size() - 1)};
  const CopyWay way = rig_->ByBatches({&most, 1}, cell_.out_batches);
  EXPECT_DEATH(Prove({way.in, right_.out}), "CHECK failed");
}

// The sweep once made batches of 2 GiB, which only a GPU's staging buffers refused.
TEST_F(GpuRigTest, ABatchLongerThanThePlannersIsReported) {
  const RigCell cell(rig_.get(), 2 * kSegment, 64, CopyPath::kBatch);
  EXPECT_EQ(cell.in_batches.size(), 2u);
  const RigBatch all = {CopyPath::kBatch, cell.in};
  EXPECT_DEATH(rig_->Run(CopyDirection::kHostToDevice, {&all, 1}), "AsPlanned");
}

}  // namespace
}  // namespace kvtier::bench
