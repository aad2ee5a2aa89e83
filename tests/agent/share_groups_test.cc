// Tests share groups: tenants whose blocks others read, and some of them write, over one agent in
// virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agent/flows/node_tenants.h"
#include "agent/limits.h"
#include "tests/agent/agent_rig.h"
#include "tests/testing/fake_tenant_store.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::FakeTenantStore;
using testing::kRigBlockBytes;

constexpr DomainId kWriter{0};
constexpr DomainId kReader{1};
constexpr DomainId kGroup{2};
constexpr char kWriterName[] = "default";
constexpr char kReaderName[] = "acme";
constexpr char kGroupName[] = "third";

class ShareGroupsTest : public ::testing::Test {
 protected:
  ShareGroupsTest() : ShareGroupsTest(AgentRig::Shape{}) {}
  explicit ShareGroupsTest(AgentRig::Shape shape) {
    store_.secrets = {{kReaderName, "sixteen bytes or more"},
                      {kWriterName, ""},
                      {kGroupName, "sixteen more bytes"}};
    shape.third_tenant = true;
    shape.tenants = &store_;
    shape.tenant_settings = {{kGroupName, Group()}};
    rig_.emplace(shape);
  }
  ~ShareGroupsTest() override { rig_->agent->Audit(); }

  static TenantSettings Group() {
    return {.name = kGroupName,
            .members = {{kWriterName, GroupAccess::kWrite}, {kReaderName, GroupAccess::kRead}}};
  }
  std::optional<SessionTenants> Admitted(const std::string& member) {
    return rig_->agent->options().tenants.Admitted(member, kGroupName);
  }
  // Opens a session of the member in the group. REQUIRES: `member` is in the group.
  SessionId OpenIn(const std::string& member) { return *rig_->OpenFor(*Admitted(member)); }
  bool IsOpen(SessionId session) { return rig_->agent->sessions().table().IsOpen(session); }
  absl::Status Change(const std::string& member, std::optional<GroupAccess> access) {
    return rig_->Run(rig_->agent->tenants().Set(
        {.name = kGroupName, .members = {{.tenant = member, .access = access}}}, std::nullopt));
  }
  uint64_t HostBytes(DomainId domain) { return rig_->agent->host().slots(domain).used_bytes(); }

  FakeTenantStore store_;
  std::optional<AgentRig> rig_;
};

TEST_F(ShareGroupsTest, MembersReadWhatAWriterPutInTheGroupsArena) {
  const SessionId writer = OpenIn(kWriterName);
  const SessionId reader = OpenIn(kReaderName);
  ASSERT_EQ(rig_->Put(writer, 0, 8), 8);
  EXPECT_EQ(HostBytes(kGroup), 8 * kRigBlockBytes);
  EXPECT_EQ(HostBytes(kWriter) + HostBytes(kReader), 0) << "nothing lies in a member's arena";
  EXPECT_EQ(rig_->Hits(reader, 0, 8), 8) << "its bytes are those of the group's arena";
  const Onboarded one = *rig_->Run(rig_->Onboard(writer, 0, 1, absl::Seconds(1)));
  const Onboarded other = *rig_->Run(rig_->Onboard(reader, 0, 1, absl::Seconds(1)));
  EXPECT_EQ(one.blocks.at(0).offset, other.blocks.at(0).offset) << "both read the same block";
  EXPECT_EQ(rig_->Hits(rig_->Open(2), 0, 8), 8) << "the group's own workers read it, too";
  EXPECT_EQ(rig_->Hits(rig_->Open(0), 0, 8), 0) << "it is not the writer's own";
  EXPECT_EQ(rig_->Hits(rig_->Open(1), 0, 8), 0);
  EXPECT_EQ(rig_->agent->residency().table(kGroup)->blocks_in(Tier::kHost), 8);
  EXPECT_EQ(rig_->agent->residency().table(kReader)->blocks_in(Tier::kHost), 0);
}

TEST_F(ShareGroupsTest, BlocksComeBackFromDiskIntoTheGroupsArena) {
  const SessionId reader = OpenIn(kReaderName);
  ASSERT_EQ(rig_->PutOnDisk(OpenIn(kWriterName), 0, 8), 8);
  rig_->EvictHost();
  ASSERT_EQ(HostBytes(kGroup), 0);
  EXPECT_EQ(rig_->Hits(reader, 0, 8, absl::Seconds(1)), 8);
  EXPECT_EQ(HostBytes(kGroup), 8 * kRigBlockBytes);
  EXPECT_EQ(HostBytes(kReader), 0);
}

TEST_F(ShareGroupsTest, WhatASessionTakesIsItsMembers) {
  WorkerSessions& sessions = rig_->agent->sessions();
  const size_t before = sessions.shares().Taken(kWriter);  // The rig's own session.
  const SessionId writer = OpenIn(kWriterName);
  const SessionId reader = OpenIn(kReaderName);
  EXPECT_EQ(sessions.shares().Taken(kWriter), before + 1);
  EXPECT_EQ(sessions.shares().Taken(kReader), 1);
  EXPECT_EQ(sessions.shares().Taken(kGroup), 0);
  std::vector<ReservationId> reserved = rig_->Reserve(writer, 0, 4);
  EXPECT_EQ(sessions.reservations().shares().Taken(kWriter), 4);
  EXPECT_EQ(sessions.reservations().shares().Taken(kGroup), 0);
  ASSERT_EQ(rig_->Commit(writer, std::move(reserved)), 4);
  EXPECT_EQ(sessions.reservations().shares().Taken(kWriter), 0);
  ASSERT_EQ(rig_->Run(rig_->Onboard(reader, 0, 4, absl::Seconds(1)))->blocks.size(), 4);
  EXPECT_EQ(sessions.leases().shares().Taken(kReader), 4);
  EXPECT_EQ(sessions.leases().shares().Taken(kGroup), 0);
  rig_->agent->CloseSession(reader);
  EXPECT_EQ(sessions.leases().shares().Taken(kReader), 0);
  EXPECT_EQ(sessions.shares().Taken(kReader), 0);
}

TEST_F(ShareGroupsTest, AMemberThatTakesAllThatItMayLeavesTheOthersTheirs) {
  absl::Status refused;
  size_t opened = 0;
  for (; refused.ok(); ++opened) refused = rig_->OpenFor(*Admitted(kReaderName)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_GE(opened, kMaxSessions / 2);
  EXPECT_TRUE(rig_->OpenFor(*Admitted(kWriterName)).ok());
  EXPECT_TRUE(rig_->OpenFor(SessionTenants::Own(*Admitted(kWriterName)->home)).ok());
  EXPECT_FALSE(rig_->OpenFor(SessionTenants::Own(*Admitted(kReaderName)->payer)).ok())
      << "it pays for both out of one share";
}

TEST_F(ShareGroupsTest, AMemberThatIsRemovedLosesItsSessionsInTheGroupAlone) {
  const SessionId writer = OpenIn(kWriterName);
  const SessionId reader = OpenIn(kReaderName);
  const SessionId own = rig_->Open(1);
  ASSERT_EQ(rig_->Put(writer, 0, 4), 4);
  ASSERT_EQ(rig_->Run(rig_->Onboard(reader, 0, 4, absl::Seconds(1)))->blocks.size(), 4);
  ASSERT_EQ(Change(kReaderName, std::nullopt), absl::OkStatus());
  EXPECT_FALSE(IsOpen(reader));
  EXPECT_TRUE(IsOpen(writer) && IsOpen(own));
  EXPECT_EQ(rig_->agent->sessions().leases().size(), 0) << "its leases ended with it";
  EXPECT_EQ(Admitted(kReaderName), std::nullopt);
  ASSERT_EQ(Change(kReaderName, GroupAccess::kRead), absl::OkStatus());
  EXPECT_EQ(rig_->Hits(OpenIn(kReaderName), 0, 4), 4);
}

TEST_F(ShareGroupsTest, ASessionWhoseAccessChangesEnds) {
  const SessionId writer = OpenIn(kWriterName);
  ASSERT_EQ(Change(kWriterName, GroupAccess::kRead), absl::OkStatus());
  EXPECT_FALSE(IsOpen(writer));
  EXPECT_FALSE(Admitted(kWriterName)->may_write);
  const SessionId reader = OpenIn(kReaderName);
  ASSERT_EQ(rig_->Run(rig_->agent->tenants().Set(
                {.name = kGroupName,
                 .values = {{.tier = Tier::kHost, .field = ShareField::kWeight, .value = 2}}},
                std::nullopt)),
            absl::OkStatus());
  EXPECT_TRUE(IsOpen(reader)) << "another setting of the group changed";
}

TEST_F(ShareGroupsTest, TheClusterSaysWhoIsAMember) {
  TenantSettings acme{.name = kReaderName, .members = {{kGroupName, GroupAccess::kRead}}};
  rig_->agent->tenants().TakeCluster({.store = 5, .version = 1, .settings = {{kReaderName, acme}}});
  const auto of = rig_->agent->options().tenants.Admitted(kGroupName, kReaderName);
  ASSERT_TRUE(of.has_value());
  const SessionId session = *rig_->OpenFor(*of);
  rig_->agent->tenants().TakeCluster({.store = 5, .version = 2});
  EXPECT_FALSE(IsOpen(session));
}

TEST_F(ShareGroupsTest, SessionsEndWhereTheGroupOrTheMemberIsShut) {
  for (const char* const name : {kGroupName, kReaderName}) {
    const SessionId session = OpenIn(kReaderName);
    const SessionId own = rig_->Open(1);
    const auto secret = *store_.secrets.find(name);
    store_.secrets.erase(name);
    rig_->Pass(kTenantsInterval + absl::Seconds(1));
    EXPECT_FALSE(IsOpen(session)) << name;
    EXPECT_TRUE(IsOpen(own)) << "who works on its own blocks stays in";
    EXPECT_EQ(Admitted(kReaderName), std::nullopt);
    store_.secrets.insert(secret);
    rig_->Pass(kTenantsInterval + absl::Seconds(1));
    EXPECT_TRUE(Admitted(kReaderName).has_value());
  }
}

TEST_F(ShareGroupsTest, SessionsEndWhereTheMemberIsDroppedAndTheBlocksStay) {
  const SessionId reader = OpenIn(kReaderName);
  ASSERT_EQ(rig_->Put(OpenIn(kWriterName), 0, 4), 4);
  ASSERT_EQ(rig_->Run(rig_->Onboard(reader, 0, 4, absl::Seconds(1)))->blocks.size(), 4);
  const auto dropped = rig_->Run(rig_->agent->tenants().Drop(kReaderName));
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  EXPECT_EQ(dropped->sessions, 1);
  EXPECT_FALSE(IsOpen(reader));
  EXPECT_EQ(rig_->Hits(OpenIn(kWriterName), 0, 4), 4);
}

TEST_F(ShareGroupsTest, SessionsEndWhereTheGroupIsDropped) {
  const SessionId writer = OpenIn(kWriterName);
  const SessionId reader = OpenIn(kReaderName);
  ASSERT_EQ(rig_->Put(writer, 0, 4), 4);
  ASSERT_TRUE(rig_->Run(rig_->agent->tenants().Drop(kGroupName)).ok());
  EXPECT_FALSE(IsOpen(writer) || IsOpen(reader));
  rig_->Pass(absl::Seconds(1));
  EXPECT_EQ(HostBytes(kGroup), 0);
  EXPECT_EQ(rig_->agent->sessions().shares().Taken(kReader), 0);
}

class GroupTicketsTest : public ShareGroupsTest {
 protected:
  GroupTicketsTest() : ShareGroupsTest(AgentRig::Shape{.slots = 16, .disk = false}) {}
  absl::StatusOr<TakenTicket> Take(SessionId of, size_t count) {
    TicketRequest request{.redemptions = 1, .lifetime = absl::Seconds(20)};
    request.sequences.push_back({.run = rig_->NameRun(of, 0, count),
                                 .deadline = rig_->executor.Now() + absl::Milliseconds(100)});
    return rig_->Run(rig_->agent->flows().tickets.Take(std::move(request)));
  }
  absl::Status Redeem(SessionId by, const TicketId& id) {
    const BlockRun run = rig_->NameRun(by, 0, 1);
    return rig_->agent->flows()
        .tickets.Redeem(by, TicketHolder::Of(run), id, 0, {run.space})
        .status();
  }
};

TEST_F(GroupTicketsTest, ATicketIsTheMembersThatTookIt) {
  const SessionId reader = OpenIn(kReaderName);
  const SessionId writer = OpenIn(kWriterName);
  ASSERT_EQ(rig_->Put(writer, 0, 1), 1);
  const TakenTicket ticket = *Take(reader, 1);
  EXPECT_EQ(Redeem(writer, ticket.id), Redeem(writer, TicketId{7}));
  EXPECT_TRUE(absl::IsNotFound(Redeem(rig_->Open(1), ticket.id))) << "nor in its own domain";
  EXPECT_EQ(Redeem(OpenIn(kReaderName), ticket.id), absl::OkStatus());
  EXPECT_EQ(rig_->agent->sessions().leases().shares().Taken(kReader), 1);
}

// Half of the group's memory may be held by tickets: eight of its sixteen blocks.
TEST_F(GroupTicketsTest, AMemberHoldsHalfOfWhatTheOthersLeave) {
  const SessionId reader = OpenIn(kReaderName);
  const SessionId writer = OpenIn(kWriterName);
  ASSERT_EQ(rig_->Put(writer, 0, 16), 16);
  EXPECT_TRUE(absl::IsResourceExhausted(Take(reader, 5).status()));
  EXPECT_TRUE(Take(reader, 4).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Take(reader, 1).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(Take(writer, 3).status()));
  EXPECT_TRUE(Take(writer, 2).ok());
  EXPECT_TRUE(Take(rig_->Open(2), 2).ok()) << "the group's own workers have the rest";
}

class GroupGpuTest : public ShareGroupsTest {
 protected:
  GroupGpuTest() : ShareGroupsTest(AgentRig::Shape{.gpu_slots = 4, .gpu_tenants = {kGroupName}}) {}
};

// A process that maps the pool can write all of it, so the group's members may not map it.
TEST_F(GroupGpuTest, ThePoolOfTheGroupIsItsOwnWorkersAlone) {
  const SessionId own = rig_->Open(2);
  const SessionId writer = OpenIn(kWriterName);
  EXPECT_NE(rig_->agent->gpus().For(rig_->NameRun(own, 0, 1)), nullptr);
  EXPECT_EQ(rig_->agent->gpus().For(rig_->NameRun(writer, 0, 1)), nullptr);
  EXPECT_TRUE(absl::IsNotFound(rig_->agent->sessions().AttachToGpu(writer).status()));
  EXPECT_TRUE(rig_->agent->sessions().AttachToGpu(own).ok());
}

}  // namespace
}  // namespace kvtier
