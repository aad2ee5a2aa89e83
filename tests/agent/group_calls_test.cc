// Tests what a member of a share group that only reads can do to the group by its calls: it leaves
// room for the puts of others, and what it says of the next use of blocks counts for nothing.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/limits.h"
#include "tests/agent/agent_rig.h"
#include "tests/agent/worker_calls.h"
#include "tests/testing/fake_tenant_store.h"

namespace kvtier::testing {
namespace {

constexpr DomainId kReader{1};
constexpr DomainId kGroup{2};
constexpr size_t kSlots = 24;
constexpr uint32_t kTimeoutMs = 100;

class GroupCallsTest : public ::testing::Test {
 protected:
  GroupCallsTest() {
    store_.secrets = {
        {"acme", "sixteen bytes or more"}, {"default", ""}, {"third", "sixteen more bytes"}};
    TenantSettings group{.name = "third"};
    group.members = {{"default", GroupAccess::kWrite}, {"acme", GroupAccess::kRead}};
    rig_.emplace(AgentRig::Shape{.slots = kSlots,
                                 .third_tenant = true,
                                 .eviction = {.host = EvictionPolicy::kLru},
                                 .disk = false,
                                 .tenants = &store_,
                                 .tenant_settings = {{"third", group}}});
    calls_.emplace(&*rig_);
    writer_ = OpenIn("default");
    reader_ = OpenIn("acme");
  }
  ~GroupCallsTest() override { rig_->agent->Audit(); }

  WorkerCalls::Worker OpenIn(const std::string& member) {
    return *calls_->OpenFor(*rig_->agent->options().tenants.Admitted(member, "third"));
  }
  // Onboards blocks, and returns how many were leased.
  size_t Onboard(const WorkerCalls::Worker& worker, uint64_t first, size_t count,
                 bool will_not_return = false) {
    auto request = WorkerCalls::About<v1::OnboardRequest>(worker, first, count);
    request.mutable_sequences(0)->mutable_reuse_hint()->set_will_not_return(will_not_return);
    request.set_target(v1::TIER_HOST);
    request.set_timeout_ms(kTimeoutMs);
    const auto call = calls_->Begin(&WorkerService::Onboard, std::move(request));
    calls_->Await(*call);
    KVT_CHECK(call->status().ok());
    missed_ = call->response().sequences(0).missed();
    const v1::LeasedBlocks& leased = call->response().sequences(0).blocks();
    leases_.assign(leased.lease_ids().begin(), leased.lease_ids().end());
    return leases_.size();
  }
  // Releases the leases of the last Onboard().
  void Release(const WorkerCalls::Worker& worker) {
    v1::ReleaseRequest request;
    request.set_session_token(worker.token);
    request.mutable_lease_ids()->Add(leases_.begin(), leases_.end());
    calls_->Await(*calls_->Begin(&WorkerService::Release, std::move(request)));
  }
  size_t Put(uint64_t first, size_t count) { return rig_->Put(writer_.id, first, count); }
  // Returns whether the order of eviction believes that nobody will ask for the block again.
  bool IsOver(uint64_t block) {
    const EvictionOrder& order = rig_->agent->index().host_order(kGroup).order();
    return order.StateOf(*order.Find(rig_->NameRun(writer_.id, block, 1).keys[0])).ended > 0;
  }

  FakeTenantStore store_;
  std::optional<AgentRig> rig_;
  std::optional<WorkerCalls> calls_;
  WorkerCalls::Worker writer_;
  WorkerCalls::Worker reader_;
  std::vector<uint64_t> leases_;
  v1::MissReason missed_{};
};

// A reader that renewed its leases of all blocks let no put of a writer through.
TEST_F(GroupCallsTest, AReaderThatLeasesEverythingForEverLeavesRoomForPuts) {
  ASSERT_EQ(Put(0, kSlots), kSlots);
  EXPECT_EQ(Onboard(reader_, 0, kSlots), kSlots / kMemberPinPart);
  EXPECT_EQ(missed_, v1::MISS_REASON_NO_ROOM);
  size_t put = 0;
  for (uint64_t block = 0; block < 60; ++block) {
    put += Put(1000 + block, 1);
    Onboard(reader_, 1000 + block, 1);
    Onboard(reader_, 0, kSlots);
    rig_->Pass(absl::Milliseconds(300));
  }
  EXPECT_EQ(put, 60);
  EXPECT_EQ(rig_->agent->index().member_pins().BytesOf(kGroup, kReader),
            kSlots / kMemberPinPart * kRigBlockBytes);
}

TEST_F(GroupCallsTest, AReaderThatLetsGoReadsTheRest) {
  ASSERT_EQ(Put(0, kSlots), kSlots);
  ASSERT_EQ(Onboard(reader_, 0, kSlots), kSlots / 2);
  EXPECT_EQ(Onboard(reader_, kSlots / 2, kSlots / 2), 0);
  EXPECT_EQ(Onboard(OpenIn("acme"), kSlots / 2, 1), 0) << "a member's sessions have one part";
  EXPECT_EQ(Onboard(reader_, 0, kSlots / 2), kSlots / 2) << "they are pinned already";
  rig_->Pass(kLeaseDuration + kLeaseGrace + absl::Seconds(1));
  EXPECT_EQ(rig_->agent->index().member_pins().BytesOf(kGroup, kReader), 0);
  EXPECT_EQ(Onboard(reader_, kSlots / 2, kSlots / 2), kSlots / 2);
}

TEST_F(GroupCallsTest, WhatAnotherMemberHasPinnedCostsNothing) {
  ASSERT_EQ(Put(0, kSlots), kSlots);
  ASSERT_EQ(Onboard(reader_, 0, kSlots), kSlots / 2);
  // The other half: half of what the reader leaves.
  EXPECT_EQ(Onboard(writer_, kSlots / 2, kSlots / 2), kSlots / 4);
  Release(writer_);
  EXPECT_EQ(Onboard(writer_, 0, kSlots / 2), kSlots / 2);
  const MemberPins& pins = rig_->agent->index().member_pins();
  EXPECT_EQ(pins.BytesOf(kGroup, DomainId{0}), 0);
  rig_->agent->CloseSession(reader_.id);
  EXPECT_EQ(pins.BytesOf(kGroup, kReader), 0);
  EXPECT_EQ(pins.BytesOf(kGroup, DomainId{0}), kSlots / 2 * kRigBlockBytes)
      << "the writer alone has them pinned now";
}

TEST_F(GroupCallsTest, RequestsThatWaitAndTicketsCountAsLeasesDo) {
  ASSERT_EQ(Put(0, kSlots), kSlots);
  const auto take = [&](uint64_t first, size_t count) {
    auto request = WorkerCalls::About<v1::TakeTicketRequest>(reader_, first, count);
    request.set_redemptions(1);
    request.set_lifetime_ms(20'000);
    request.set_timeout_ms(kTimeoutMs);
    const auto call = calls_->Begin(&WorkerService::TakeTicket, std::move(request));
    calls_->Await(*call);
    return call->status().ok();
  };
  // Tickets may hold half of half of the memory.
  ASSERT_TRUE(take(0, kSlots / 4));
  EXPECT_EQ(Onboard(reader_, kSlots / 4, kSlots), kSlots / 4);
  std::vector<OnboardRequest> waiting(1);
  waiting[0] = {.run = rig_->NameRun(reader_.id, kSlots / 2, kSlots / 2),
                .deadline = rig_->executor.Now() + absl::Seconds(1)};
  const auto brought = rig_->Run(rig_->agent->flows().onboarder.BringAll(&waiting));
  EXPECT_TRUE(brought[0].blocks.empty());
}

TEST_F(GroupCallsTest, TheGroupsOwnWorkersAndTenantsLeaseAllThatTheyHave) {
  ASSERT_EQ(Put(0, kSlots), kSlots);
  EXPECT_EQ(Onboard(*calls_->Open(2), 0, kSlots), kSlots);
  const WorkerCalls::Worker own = *calls_->Open(1);
  ASSERT_EQ(rig_->Put(own.id, 0, kSlots), kSlots);
  EXPECT_EQ(Onboard(own, 0, kSlots), kSlots);
}

// A reader's hint with an onboard let the group's hot blocks leave first.
TEST_F(GroupCallsTest, AReadersHintsAreIgnored) {
  ASSERT_EQ(Put(0, 8), 8);
  ASSERT_EQ(Onboard(reader_, 0, 8, /*will_not_return=*/true), 8);
  for (uint64_t block = 0; block < 8; ++block) EXPECT_FALSE(IsOver(block)) << block;
  ASSERT_EQ(Onboard(writer_, 0, 4, /*will_not_return=*/true), 4);
  for (uint64_t block = 0; block < 8; ++block) EXPECT_EQ(IsOver(block), block < 4) << block;
}

}  // namespace
}  // namespace kvtier::testing
