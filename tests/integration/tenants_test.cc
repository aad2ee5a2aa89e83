// Tests two tenants whose engines use the same keys: neither can name the other's blocks, on one
// node or across two (law 8).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/peer_namer.h"
#include "core/tenant_settings.h"
#include "grpcpp/create_channel.h"
#include "kvtier/v1/admin.grpc.pb.h"
#include "proto/convert_tenants.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Blocks kPrefix = {.first = 100, .count = 8};
constexpr char kAlphaSecret[] = "alpha's secret, 16 bytes or more";
constexpr char kBetaSecret[] = "beta's secret, which is different";

class TenantsTest : public ::testing::Test {
 protected:
  static TestWorkerOptions Alpha(const AgentProcess& agent) {
    return {.socket_dir = agent.socket_dir(), .tenant = "alpha", .secret = kAlphaSecret};
  }
  static TestWorkerOptions Beta(const AgentProcess& agent) {
    return {.socket_dir = agent.socket_dir(),
            .tenant = "beta",
            .secret = kBetaSecret,
            .tenant_seed = 2};
  }

  ProcessCluster cluster_;
  const Flags flags_ = {
      {"tenants_dir", cluster_.WriteTenants({{"alpha", kAlphaSecret}, {"beta", kBetaSecret}})}};
};

TEST_F(TenantsTest, TheSameKeysNameDifferentBlocks) {
  AgentProcess& agent = cluster_.StartAgent("node-a", flags_);
  TestWorker alpha(Alpha(agent));
  TestWorker beta(Beta(agent));
  EXPECT_NE(alpha.KeyOf(kPrefix.first), beta.KeyOf(kPrefix.first));
  ASSERT_EQ(alpha.Put(kPrefix), kPrefix.count);

  EXPECT_THAT(beta.Get(kPrefix), IsEmpty());
  const auto matched = beta.client().Match(beta.space(), beta.KeysOf(kPrefix));
  ASSERT_TRUE(matched.ok());
  EXPECT_EQ(matched->blocks, 0);
  EXPECT_EQ(*alpha.client().ResidentRun(alpha.space(), alpha.KeysOf(kPrefix)), kPrefix.count);
  EXPECT_EQ(*beta.client().ResidentRun(beta.space(), beta.KeysOf(kPrefix)), 0);
  // Beta's put is not answered "present" either: it gets slots for its own blocks.
  EXPECT_EQ(beta.Put(kPrefix), kPrefix.count);
  EXPECT_THAT(alpha.Get(kPrefix), SizeIs(kPrefix.count));
  EXPECT_THAT(beta.Get(kPrefix), SizeIs(kPrefix.count));
}

// A process that maps the pool can read all of it, so only one tenant may.
TEST_F(TenantsTest, AGpuPoolIsOneTenantsAndNoOthers) {
  Flags flags = flags_;
  flags.insert({{"gpu_bytes", "1MiB"},
                {"gpu_block_bytes", "64KiB"},
                {"gpu_tenants", "beta"},
                {"device", "emulated"}});
  AgentProcess& agent = cluster_.StartAgent("node-a", flags);
  TestWorker alpha(Alpha(agent));
  TestWorker beta(Beta(agent));
  const ReserveOptions through_gpu = {.target = OnboardTarget::kGpu};
  const OnboardOptions to_gpu = {.target = OnboardTarget::kGpu};
  EXPECT_EQ(alpha.Put(kPrefix, through_gpu), 0);
  EXPECT_EQ(alpha.Put(kPrefix), kPrefix.count);
  EXPECT_THAT(alpha.Get(kPrefix, to_gpu), IsEmpty());
  EXPECT_EQ(beta.Put(kPrefix, through_gpu), kPrefix.count);
  EXPECT_THAT(beta.Get(kPrefix, to_gpu), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kGpu)));
}

// Each tenant has a pool of its own on the one GPU, as large as its share says.
TEST_F(TenantsTest, AGpuIsDividedByTheSharesOfItsTenants) {
  constexpr uint64_t kHandle = uint64_t{2} << 20;
  constexpr uint64_t kSlots = kHandle / (64 << 10);
  Flags flags = flags_;
  flags.insert({{"gpu_bytes", "8MiB"},
                {"gpu_block_bytes", "64KiB"},
                {"gpu_tenants", "alpha,beta"},
                {"device", "emulated"}});
  AgentProcess& agent = cluster_.StartAgent("node-a", flags);
  TestWorker alpha(Alpha(agent));
  TestWorker beta(Beta(agent));
  const ReserveOptions through_gpu = {.target = OnboardTarget::kGpu};
  const OnboardOptions to_gpu = {.target = OnboardTarget::kGpu};
  EXPECT_EQ(alpha.Put(kPrefix, through_gpu), kPrefix.count);
  EXPECT_THAT(beta.Get(kPrefix, to_gpu), IsEmpty());
  EXPECT_EQ(beta.Put(kPrefix, through_gpu), kPrefix.count);
  EXPECT_THAT(alpha.Get(kPrefix, to_gpu), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kGpu)));
  {
    absl::StatusOr<GrantedSlots> all = beta.client().TakeSlots(beta.space(), 4 * kSlots);
    ASSERT_TRUE(all.ok());
    EXPECT_EQ(all->size(), 2 * kSlots) << "half of the GPU";
  }
  v1::SetTenantRequest request;
  *request.mutable_settings() = convert::ToWire(
      TenantChange{.name = "beta", .values = {{Tier::kGpu, ShareField::kGuaranteed, 3 * kHandle}}});
  v1::SetTenantResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(v1::AgentAdmin::NewStub(
                  grpc::CreateChannel(agent.admin_address(), grpc::InsecureChannelCredentials()))
                  ->SetTenant(&context, request, &response)
                  .ok());
  EXPECT_EQ(response.tenant().gpu().part_bytes(), 3 * kHandle);
  EXPECT_TRUE(Await(absl::Seconds(30), [&] {
    absl::StatusOr<GrantedSlots> all = beta.client().TakeSlots(beta.space(), 4 * kSlots);
    return all.ok() && all->size() == 3 * kSlots;
  }));
  EXPECT_EQ(alpha.Put({500, 8}, through_gpu), 8) << "the other works on in what it has";
}

TEST_F(TenantsTest, DiskAndRestartKeepThemApart) {
  AgentProcess& agent = cluster_.StartAgent("node-a", flags_);
  TestWorker alpha(Alpha(agent));
  TestWorker beta(Beta(agent));
  ASSERT_EQ(alpha.Put(kPrefix), kPrefix.count);
  ASSERT_EQ(beta.Put({kPrefix.first, 3}), 3);
  ASSERT_TRUE(agent.AwaitOffloaded());
  agent.Kill();
  ASSERT_EQ(agent.Start().status(), absl::OkStatus());
  ASSERT_TRUE(alpha.AwaitConnected() && beta.AwaitConnected());
  EXPECT_THAT(alpha.Get(kPrefix), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kDisk)));
  EXPECT_THAT(beta.Get(kPrefix), AllOf(SizeIs(3), Each(BlockSource::kDisk)));
}

TEST_F(TenantsTest, ATenantsBlocksAreFetchedByItsOwnWorkersOnOtherNodesOnly) {
  CoordinatorProcess& coordinator = cluster_.StartCoordinator();
  AgentProcess& a = cluster_.StartAgent("node-a", flags_);
  AgentProcess& b = cluster_.StartAgent("node-b", flags_);
  TestWorker alpha_on_a(Alpha(a));
  TestWorker alpha_on_b(Alpha(b));
  TestWorker beta_on_b(Beta(b));
  ASSERT_EQ(alpha_on_a.Put(kPrefix), kPrefix.count);
  const PeerNamer namer(PeerKey::FromSecret(kAlphaSecret));
  const BlockKey last = alpha_on_a.KeyOf(kPrefix.first + kPrefix.count - 1);
  ASSERT_TRUE(coordinator.AwaitHolders(namer.NameOf(last), 1));
  EXPECT_THAT(beta_on_b.Get(kPrefix), IsEmpty());
  EXPECT_THAT(alpha_on_b.Get(kPrefix), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kPeer)));
}

TEST_F(TenantsTest, AWrongSecretAndAnUnknownTenantAreRefusedAlike) {
  AgentProcess& agent = cluster_.StartAgent("node-a", flags_);
  TestWorkerOptions wrong = Alpha(agent);
  wrong.secret = kBetaSecret;
  TestWorker liar(wrong);
  TestWorkerOptions unknown = Alpha(agent);
  unknown.tenant = "gamma";
  TestWorker stranger(unknown);
  TestWorker open(
      {.socket_dir =
           agent.socket_dir()});  // Asks for the open tenant, which this agent does not have.

  for (TestWorker* worker : {&liar, &stranger, &open}) {
    EXPECT_FALSE(worker->client().connected());
    EXPECT_EQ(worker->Put(kPrefix), 0);
    EXPECT_THAT(worker->Get(kPrefix), IsEmpty());
    EXPECT_THAT(worker->client().Stats().last_error, HasSubstr("PERMISSION_DENIED"));
  }
  EXPECT_EQ(agent.Status().sessions(), 0);
}

TEST_F(TenantsTest, OneTenantsBlocksNeverPushOutAnothers) {
  // Each of two tenants has half of 16 MiB of host memory: 128 blocks of 64 KiB.
  AgentProcess& agent = cluster_.StartAgent("node-a", flags_);
  TestWorker alpha(Alpha(agent));
  TestWorker beta(Beta(agent));
  ASSERT_EQ(alpha.Put(kPrefix), kPrefix.count);
  ASSERT_TRUE(agent.AwaitOffloaded());
  for (uint64_t first = 1000; first < 1400; first += 50) {
    EXPECT_EQ(beta.Put({first, 50}), 50);
    ASSERT_TRUE(agent.AwaitOffloaded());
  }
  EXPECT_THAT(alpha.Get(kPrefix), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kHost)));
}

TEST_F(TenantsTest, AnOperatorSeesWhatEachHas) {
  AgentProcess& agent = cluster_.StartAgent("node-a", flags_);
  TestWorker first(Alpha(agent));
  TestWorker second(Alpha(agent));
  ASSERT_EQ(first.Put(kPrefix), kPrefix.count);
  const auto stub = v1::AgentAdmin::NewStub(
      grpc::CreateChannel(agent.admin_address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::ListTenantsResponse listed;
  ASSERT_TRUE(stub->ListTenants(&context, {}, &listed).ok());
  EXPECT_EQ(listed.node_id(), "node-a");
  ASSERT_EQ(listed.tenants_size(), 2);
  const v1::TenantReport& alpha = listed.tenants(0);
  EXPECT_EQ(alpha.name(), "alpha");
  EXPECT_EQ(alpha.sessions().used(), 2u);
  EXPECT_EQ(alpha.sessions().guaranteed(), 256u);
  EXPECT_EQ(alpha.sessions().limit(), 1024u);
  EXPECT_EQ(alpha.leases().guaranteed(), 65'536u);
  EXPECT_EQ(alpha.reservations().guaranteed(), 16'384u);
  EXPECT_EQ(alpha.host_blocks(), static_cast<uint64_t>(kPrefix.count));
  EXPECT_GT(alpha.host_used_bytes(), 0u);
  const v1::TenantReport& beta = listed.tenants(1);
  EXPECT_EQ(beta.name(), "beta");
  EXPECT_EQ(beta.sessions().used(), 0u);
  EXPECT_EQ(beta.host_used_bytes(), 0u);
  EXPECT_EQ(beta.host_capacity_bytes(), alpha.host_capacity_bytes());
  ASSERT_GE(listed.tiers_size(), 1);
  EXPECT_EQ(listed.tiers(0).tier(), v1::TIER_HOST);
  EXPECT_EQ(listed.tiers(0).capacity_bytes(),
            alpha.host_capacity_bytes() + beta.host_capacity_bytes());
}

}  // namespace
}  // namespace kvtier::testing
