// Tests that, by the time a flow of the agent answers, the tables of its workers have what the
// index has.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "core/checksum.h"
#include "proto/residency_words.h"
#include "tests/agent/agent_rig.h"
#include "tests/agent/residency_rig.h"
#include "tests/testing/numbered_key.h"

namespace kvtier {
namespace {

using testing::AgentRig;

class ResidencyFlowsTest : public ::testing::Test {
 protected:
  explicit ResidencyFlowsTest(const AgentRig::Shape& shape = {.gpu_slots = 8}) : rig_(shape) {}
  ~ResidencyFlowsTest() override { rig_.agent->Audit(); }

  std::vector<Residence> Said(SessionId of, uint64_t first, size_t count) {
    const BlockRun run = rig_.NameRun(of, first, count);
    const auto view = testing::ViewOf(*rig_.agent->residency().table(run.domain));
    std::vector<Residence> said;
    for (const BlockKey& key : run.keys) said.push_back(view->Look(key));
    return said;
  }
  Residence Said(SessionId of, uint64_t number) { return Said(of, number, 1).front(); }

  AgentRig rig_;
};

TEST_F(ResidencyFlowsTest, ABlockIsThereWhenItsCommitIsAnsweredAndNotBefore) {
  const std::vector<ReservationId> reserved = rig_.Reserve(rig_.session, 0, 2);
  EXPECT_EQ(Said(rig_.session, 0, 2), std::vector(2, Residence::kAbsent));
  ASSERT_EQ(rig_.Commit(rig_.session, reserved), 2);
  EXPECT_EQ(Said(rig_.session, 0, 3),
            (std::vector{Residence::kHost, Residence::kHost, Residence::kAbsent}));
}

TEST_F(ResidencyFlowsTest, ABlockOnDiskIsSaidToBeThereWhenItLeavesHostMemory) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 0, 3), 3);
  EXPECT_EQ(Said(rig_.session, 1), Residence::kHost);
  rig_.EvictHost();
  EXPECT_EQ(Said(rig_.session, 0, 3), std::vector(3, Residence::kDisk));
  EXPECT_EQ(rig_.Hits(rig_.session, 0, 3), 3);
  EXPECT_EQ(Said(rig_.session, 0, 3), std::vector(3, Residence::kHost));
}

TEST_F(ResidencyFlowsTest, ABlockThatIsErasedIsAbsent) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 0, 1), 1);
  rig_.EvictHost();
  ASSERT_EQ(rig_.Run(rig_.agent->disks().set()->Erase(rig_.NameRun(rig_.session, 0, 1).keys[0])),
            absl::OkStatus());
  EXPECT_EQ(Said(rig_.session, 0), Residence::kAbsent);
}

TEST_F(ResidencyFlowsTest, ABlockOfTheGpuPoolIsSaidToBeThere) {
  ASSERT_EQ(rig_.Put(rig_.session, 0, 2), 2);
  const auto onboarded =
      *rig_.Run(rig_.Onboard(rig_.session, 0, 2, absl::Milliseconds(100), Tier::kGpu));
  ASSERT_EQ(onboarded.blocks.size(), 2);
  EXPECT_EQ(Said(rig_.session, 0, 2), std::vector(2, Residence::kGpu));
  std::vector<LeaseId> leases;
  for (const auto& block : onboarded.blocks) leases.push_back(block.lease);
  rig_.agent->sessions().leases().Release(rig_.session, leases);
  rig_.EvictGpus();
  EXPECT_EQ(Said(rig_.session, 0, 2), std::vector(2, Residence::kHost));
}

// Isolation: tables of two domains have no word in common, though both tenants' engines use the
// same keys and their blocks lie on the same disk.
TEST_F(ResidencyFlowsTest, NothingOfATenantIsInTheTableOfAnother) {
  const SessionId acme = rig_.Open(1);
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 0, 12), 12);
  ASSERT_EQ(rig_.PutOnDisk(acme, 5, 12), 12);
  const auto tags = [&](SessionId of) {
    const DomainId domain = rig_.agent->sessions().table().DomainOf(of);
    const std::span<const std::byte> bytes =
        rig_.agent->residency().table(domain)->memory().bytes();
    std::set<uint64_t> found;
    for (size_t at = wire::kResidencyHeaderBytes; at < bytes.size(); at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, sizeof(word));
      if (word != 0) found.insert(wire::EntryTag(word));
    }
    return found;
  };
  const auto expected = [&](SessionId of, uint64_t first) {
    std::set<uint64_t> named;
    for (const BlockKey& key : rig_.NameRun(of, first, 12).keys) {
      named.insert(wire::EntryTag(key.lo));
    }
    return named;
  };
  EXPECT_EQ(tags(rig_.session), expected(rig_.session, 0));
  EXPECT_EQ(tags(acme), expected(acme, 5));
  EXPECT_EQ(Said(rig_.session, 12, 5), std::vector(5, Residence::kAbsent));
}

TEST_F(ResidencyFlowsTest, ABlockOfATenantThatThisNodeDoesNotServeIsInNoTable) {
  const AlignedBuffer slot(testing::kRigBlockBytes, std::make_shared<std::atomic<size_t>>(0));
  const BlockMeta meta{.key = testing::NumberedKey(1),
                       .length = testing::kRigBlockBytes,
                       .sum = SumPayload(slot.bytes())};
  ASSERT_EQ(rig_.Run(rig_.agent->disks().set()->Put(meta, slot.bytes(), "gone")), absl::OkStatus());
  ASSERT_TRUE(rig_.agent->disks().set()->Contains(meta.key));
  EXPECT_EQ(rig_.agent->residency().blocks_in(Tier::kDisk), 0);
}

}  // namespace
}  // namespace kvtier
