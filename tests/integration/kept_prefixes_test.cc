// Tests kept prefixes of real agents and workers: what is kept survives what empties memory, within
// its tenant's quota, until it is ended; and prefixes that are dropped with all that descends from
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "kvtier/v1/admin.grpc.pb.h"
#include "tests/testing/child_process.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::SizeIs;

constexpr Blocks kPrefix = {.first = 40, .count = 8};
constexpr char kAlphaSecret[] = "alpha's secret, 16 bytes or more";
constexpr char kBetaSecret[] = "beta's secret, which is different";

KeptPrefix Keep(TestWorker& worker, Blocks blocks, const KeepOptions& options = {}) {
  const std::vector<EngineKey> keys = worker.KeysOf(blocks);
  const KeySequence run{.space = worker.space(), .keys = keys};
  const auto kept = worker.client().Keep(std::span(&run, 1), options);
  EXPECT_TRUE(kept.ok() && kept->sequences.size() == 1) << kept.status();
  return *kept;
}

class KeptPrefixesTest : public ::testing::Test {
 protected:
  KeptList List(TestWorker& worker) {
    const auto list = worker.client().ListKept();
    EXPECT_TRUE(list.ok() && list->answered);
    return *list;
  }
  v1::AgentAdmin::Stub& Admin() { return *admin_; }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent(
      "node",
      {{"host_bytes", "16MiB"},
       {"slab_bytes", "1MiB"},
       {"tenants_dir", cluster_.WriteTenants({{"alpha", kAlphaSecret}, {"beta", kBetaSecret}})}});
  const std::unique_ptr<v1::AgentAdmin::Stub> admin_ = v1::AgentAdmin::NewStub(
      grpc::CreateChannel(agent_.admin_address(), grpc::InsecureChannelCredentials()));
  TestWorker alpha_{{.socket_dir = agent_.socket_dir(), .tenant = "alpha", .secret = kAlphaSecret}};
  TestWorker beta_{{.socket_dir = agent_.socket_dir(),
                    .tenant = "beta",
                    .secret = kBetaSecret,
                    .tenant_seed = 2}};
};

TEST_F(KeptPrefixesTest, WhatIsKeptOutlivesItsWorkerAndWhatEmptiesMemory) {
  {
    TestWorker first(
        {.socket_dir = agent_.socket_dir(), .tenant = "alpha", .secret = kAlphaSecret});
    ASSERT_EQ(first.Put(kPrefix), kPrefix.count);
    agent_.Evict(Tier::kHost);
    const KeptPrefix kept = Keep(first, kPrefix);
    EXPECT_EQ(kept.id, 1u);
    EXPECT_THAT(kept.sequences[0].key_indices, SizeIs(kPrefix.count)) << "loaded from the disk";
    EXPECT_EQ(kept.limit, KeepLimit::kNone);
  }
  agent_.Evict(Tier::kHost);
  const std::vector<BlockSource> sources = alpha_.Get(kPrefix);
  ASSERT_THAT(sources, SizeIs(kPrefix.count));
  for (const BlockSource source : sources) EXPECT_EQ(source, BlockSource::kHost);
  const KeptList list = List(alpha_);
  ASSERT_THAT(list.prefixes, SizeIs(1));
  EXPECT_EQ(list.prefixes[0].blocks, kPrefix.count);
  EXPECT_GT(list.prefixes[0].ttl_left, absl::Minutes(3));
  EXPECT_EQ(list.used.bytes, kPrefix.count << 16);
  EXPECT_EQ(list.quota.bytes, uint64_t{2} << 20) << "a quarter of the tenant's half";
  EXPECT_EQ(*alpha_.client().EndKept(list.prefixes[0].id), 1u);
  // The agent gets the leases of the last get back a moment later.
  EXPECT_TRUE(Await(absl::Seconds(10), [&] {
    agent_.Evict(Tier::kHost);
    return agent_.TierStatus(Tier::kHost).blocks() == 0;
  }));
}

TEST_F(KeptPrefixesTest, AQuotaIsItsTenantsAndSoAreIds) {
  constexpr Blocks kMany = {.first = 100, .count = 64};
  ASSERT_EQ(alpha_.Put(kMany), kMany.count);
  const KeptPrefix kept = Keep(alpha_, kMany);
  EXPECT_THAT(kept.sequences[0].key_indices, SizeIs(32));
  EXPECT_EQ(kept.limit, KeepLimit::kTenantBytes);
  // One tenant keeps prefixes without end.
  for (uint64_t i = 0; i < 100; ++i) Keep(alpha_, {.first = 132, .count = 1 + i % 32});
  EXPECT_EQ(List(alpha_).used.bytes, uint64_t{2} << 20);
  ASSERT_EQ(beta_.Put(kPrefix), kPrefix.count);
  EXPECT_TRUE(List(beta_).prefixes.empty());
  EXPECT_EQ(*beta_.client().EndKept(kept.id), 0u);
  EXPECT_EQ(*beta_.client().EndKept(0), 0u);
  EXPECT_THAT(Keep(beta_, kPrefix).sequences[0].key_indices, SizeIs(kPrefix.count));
  EXPECT_THAT(List(alpha_).prefixes, SizeIs(1));
}

TEST_F(KeptPrefixesTest, OperatorsListAndEndThem) {
  ASSERT_EQ(alpha_.Put(kPrefix), kPrefix.count);
  const KeptPrefix kept = Keep(alpha_, kPrefix);
  v1::ListTenantsKeptResponse all;
  grpc::ClientContext listing;
  ASSERT_TRUE(Admin().ListTenantsKept(&listing, {}, &all).ok());
  ASSERT_THAT(all.tenants(), SizeIs(2));
  EXPECT_EQ(all.tenants(0).tenant(), "alpha");
  ASSERT_THAT(all.tenants(0).prefixes(), SizeIs(1));
  EXPECT_EQ(all.tenants(0).prefixes(0).id(), kept.id);
  EXPECT_EQ(all.tenants(0).used().blocks(), kPrefix.count);
  v1::ListTenantsResponse tenants;
  grpc::ClientContext asking;
  ASSERT_TRUE(Admin().ListTenants(&asking, {}, &tenants).ok());
  EXPECT_EQ(tenants.tenants(0).kept().bytes(), kPrefix.count << 16);
  v1::EndTenantKeptRequest end;
  end.set_tenant("gamma");
  v1::EndTenantKeptResponse ended;
  grpc::ClientContext of_none;
  EXPECT_EQ(Admin().EndTenantKept(&of_none, end, &ended).error_code(), grpc::StatusCode::NOT_FOUND);
  end.set_tenant("alpha");
  grpc::ClientContext ending;
  ASSERT_TRUE(Admin().EndTenantKept(&ending, end, &ended).ok());
  EXPECT_EQ(ended.ended_prefixes(), 1u);
  EXPECT_TRUE(List(alpha_).prefixes.empty());
}

TEST_F(KeptPrefixesTest, ADroppedPrefixGoesWithAllThatDescendsFromIt) {
  ASSERT_EQ(alpha_.Put(kPrefix), kPrefix.count);
  ASSERT_EQ(beta_.Put(kPrefix), kPrefix.count);
  Keep(alpha_, kPrefix);
  const std::vector<EngineKey> head = alpha_.KeysOf({.first = kPrefix.first + 2, .count = 1});
  const KeySequence run{.space = alpha_.space(), .keys = head};
  DeletedBlocks dropped;
  // At first, copies to the disk still hold some of the blocks.
  size_t gone = 0;
  bool all_answered = true;  // A call that was not answered in time may also have dropped blocks.
  EXPECT_TRUE(Await(absl::Seconds(10), [&] {
    dropped = *alpha_.client().DropPrefix(std::span(&run, 1));
    gone += dropped.deleted;
    all_answered = all_answered && dropped.answered;
    return dropped.answered && dropped.held == 0;
  }));
  EXPECT_EQ(gone, all_answered ? kPrefix.count - 2 : gone);
  EXPECT_FALSE(dropped.more);
  EXPECT_THAT(alpha_.Get(kPrefix), SizeIs(2));
  EXPECT_EQ(List(alpha_).prefixes[0].blocks, 2u);
  // An operator names the prefix by its engine key, as the engine does.
  v1::DropPrefixRequest request;
  request.set_tenant("beta");
  const SpaceDigest digest = beta_.spec().Digest();
  request.set_space_digest(digest.bytes.data(), digest.bytes.size());
  const EngineKey first = beta_.KeysOf(kPrefix)[0];
  request.set_engine_key(std::string(first.bytes()));
  v1::DropPrefixResponse by_operator;
  EXPECT_TRUE(Await(absl::Seconds(10), [&] {
    grpc::ClientContext context;
    return Admin().DropPrefix(&context, request, &by_operator).ok() &&
           by_operator.held_blocks() == 0;
  }));
  EXPECT_TRUE(beta_.Get(kPrefix).empty());
}

TEST_F(KeptPrefixesTest, AnAgentThatWasRestartedKeepsNothing) {
  ASSERT_EQ(alpha_.Put(kPrefix), kPrefix.count);
  Keep(alpha_, kPrefix);
  agent_.Kill();
  const KeptPrefix away = Keep(alpha_, kPrefix);
  EXPECT_FALSE(away.answered);
  EXPECT_EQ(away.id, 0u);
  EXPECT_EQ(away.sequences[0].missed, MissReason::kUnreachable);
  EXPECT_FALSE(alpha_.client().ListKept()->answered);
  EXPECT_FALSE(alpha_.client().EndKept(1)->has_value());
  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  ASSERT_TRUE(alpha_.AwaitConnected());
  EXPECT_TRUE(List(alpha_).prefixes.empty());
}

TEST_F(KeptPrefixesTest, WhatCannotBeIsRefusedByName) {
  const std::vector<EngineKey> keys = alpha_.KeysOf(kPrefix);
  const KeySequence run{.space = alpha_.space(), .keys = keys};
  const auto refusal = [&](absl::Duration ttl) {
    return std::string(alpha_.client().Keep(std::span(&run, 1), {.ttl = ttl}).status().message());
  };
  EXPECT_EQ(refusal(absl::Milliseconds(999)), "ttl is 999ms; must be 1s to 1h");
  EXPECT_EQ(refusal(absl::Hours(1) + absl::Seconds(1)), "ttl is 1h1s; must be 1s to 1h");
}

TEST(KeptPrefixesByCTest, ACProgramKeepsAndDrops) {
  ProcessCluster cluster;
  AgentProcess& agent = cluster.StartAgent(
      "node", {{"host_bytes", "16MiB"}, {"slab_bytes", "1MiB"}, {"disk_dir", ""}});
  const std::string log = absl::StrCat(cluster.run_dir(), "/c.log");
  const auto program = *ChildProcess::Start({ProgramPath("c_kept"), agent.socket_dir()}, log);
  EXPECT_EQ(program->Wait(Patience(absl::Seconds(30))), 0) << FileTail(log, 400);
}

}  // namespace
}  // namespace kvtier::testing
