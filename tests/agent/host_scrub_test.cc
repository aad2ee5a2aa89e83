// Tests that a block that changes in host memory after its commit is found within two passes, which
// read no faster than the rate; the next worker that asks gets the block from the disk.
#include "agent/flows/host_scrub.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tests/agent/agent_rig.h"

namespace kvtier::testing {
namespace {

constexpr uint64_t kRate = 64 * kRigBlockBytes;  // 64 blocks a second.

class HostScrubTest : public ::testing::Test {
 protected:
  // Returns the block's bytes in host memory.
  std::span<std::byte> BytesOf(SessionId of, uint64_t number) {
    const HostBlock* entry = rig_.agent->index().Find(rig_.NameRun(of, number, 1).keys[0]);
    return rig_.Host(of, entry->offset);
  }
  bool InHost(SessionId of, uint64_t number) {
    return rig_.agent->index().In(Tier::kHost, rig_.NameRun(of, number, 1).keys[0]);
  }
  HostScrubReport Report() const { return rig_.agent->flows().host_scrub.report(); }

  AgentRig rig_{{.slots = 128, .host_scrub_bytes_per_second = kRate}};
};

TEST_F(HostScrubTest, FindsEachByteThatChangedInAnyDomainWithinTwoPasses) {
  const SessionId other = rig_.Open(1);
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 16), 16);
  ASSERT_EQ(rig_.PutOnDisk(other, 1, 4), 4);
  rig_.Pass(absl::Seconds(5));
  ASSERT_EQ(Report().altered, 0);
  BytesOf(rig_.session, 1).front() ^= std::byte{1};
  BytesOf(rig_.session, 16).back() ^= std::byte{0x80};
  BytesOf(other, 3)[1000] ^= std::byte{1};
  rig_.Pass(absl::Seconds(2.1));
  EXPECT_EQ(Report().altered, 3);
  EXPECT_EQ(rig_.agent->stats().host.verify_failures, 3);
  EXPECT_FALSE(InHost(rig_.session, 1));
  EXPECT_FALSE(InHost(rig_.session, 16));
  EXPECT_FALSE(InHost(other, 3));
  EXPECT_TRUE(InHost(other, 2));
  // Every block is a hit with its own bytes: blocks that are gone from memory come from the disk.
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 16), 16);
  EXPECT_EQ(rig_.Hits(other, 1, 4), 4);
}

TEST_F(HostScrubTest, ReadsNoMoreThanItsRate) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 96), 96);
  const uint64_t before = Report().bytes;
  rig_.Pass(absl::Seconds(30));
  const uint64_t read = Report().bytes - before;
  // The scrub may be ahead of its rate by a batch and by a quarter of a second.
  EXPECT_LE(read, 30 * kRate + kRate / 4 + kHostScrubBatchBlocks * kRigBlockBytes);
  EXPECT_GE(read, 29 * kRate - kHostScrubBatchBlocks * kRigBlockBytes);
  // A pass reads 96 blocks, at 64 a second.
  EXPECT_GE(Report().last_pass, absl::Seconds(1.2));
  EXPECT_LE(Report().last_pass, absl::Seconds(2.6));
}

TEST_F(HostScrubTest, APassOfFewBlocksIsNotRepeatedAtOnce) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 1), 1);
  const uint64_t before = Report().passes;
  rig_.Pass(absl::Seconds(10));
  EXPECT_LE(Report().passes - before, 10);
  EXPECT_GE(Report().passes - before, 9);
}

TEST_F(HostScrubTest, ALeasedBlockThatChangedGoesAtOnceAndItsSlotWhenItsLeaseEnds) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 2), 2);
  const Onboarded held = *rig_.Run(rig_.Onboard(rig_.session, 1, 1, absl::Milliseconds(100)));
  ASSERT_EQ(held.blocks.size(), 1);
  BytesOf(rig_.session, 1).front() ^= std::byte{1};
  rig_.Pass(absl::Seconds(2.1));
  EXPECT_EQ(Report().altered, 1);
  EXPECT_FALSE(InHost(rig_.session, 1));
  const uint64_t used = rig_.agent->host().used_bytes();
  rig_.agent->sessions().leases().Release(rig_.session, std::span(&held.blocks[0].lease, 1));
  EXPECT_EQ(rig_.agent->host().used_bytes(), used - kRigBlockBytes);
  EXPECT_EQ(rig_.agent->stats().host.verify_failures, 1);
}

TEST_F(HostScrubTest, NothingIsPinnedBetweenTwoBatches) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 96), 96);
  rig_.Pass(absl::Seconds(3.3));
  EXPECT_EQ(rig_.agent->index().pinned_bytes(), 0);
}

TEST(HostScrubOffTest, ARateOfZeroReadsNothing) {
  AgentRig rig;
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 4), 4);
  rig.Pass(absl::Seconds(10));
  EXPECT_EQ(rig.agent->flows().host_scrub.report().blocks, 0);
  EXPECT_EQ(rig.agent->flows().host_scrub.report().passes, 0);
}

}  // namespace
}  // namespace kvtier::testing
