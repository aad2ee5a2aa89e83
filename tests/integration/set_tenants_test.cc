// Tests tenants that are made, changed and dropped while real agents run, on a node and for a
// cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "kvtier/v1/admin.grpc.pb.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Blocks kPrefix = {.first = 100, .count = 8};
constexpr char kAlphaSecret[] = "alpha's secret, 16 bytes or more";
constexpr char kBetaSecret[] = "beta's secret, which is different";

// Operator makes an operator's calls of one program. `Admin` is the program's admin service.
template <typename Admin>
class Operator {
 public:
  explicit Operator(const std::string& address)
      : stub_(Admin::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))) {}

  grpc::Status Set(const std::string& name, uint64_t host_weight, const std::string& secret = "") {
    return SetField(name, v1::SHARE_WEIGHT, host_weight, secret);
  }
  // Sets a field of the tenant's share of host memory.
  grpc::Status SetField(const std::string& name, v1::ShareField field, uint64_t value,
                        const std::string& secret = "") {
    v1::SetTenantRequest request;
    request.mutable_settings()->set_name(name);
    v1::TenantSetting* const setting = request.mutable_settings()->add_values();
    setting->set_tier(v1::TIER_HOST);
    setting->set_field(field);
    setting->set_value(value);
    request.set_secret(secret);
    grpc::ClientContext context;
    v1::SetTenantResponse response;
    return stub_->SetTenant(&context, request, &response);
  }
  grpc::Status SetReader(const std::string& group, const std::string& reader) {
    v1::SetTenantRequest request;
    request.mutable_settings()->set_name(group);
    v1::GroupMember* const member = request.mutable_settings()->add_members();
    member->set_tenant(reader);
    member->set_access(v1::GROUP_ACCESS_READ);
    grpc::ClientContext context;
    v1::SetTenantResponse response;
    return stub_->SetTenant(&context, request, &response);
  }
  grpc::Status Drop(const std::string& name, v1::DropTenantResponse* response) {
    v1::DropTenantRequest request;
    request.set_tenant(name);
    grpc::ClientContext context;
    return stub_->DropTenant(&context, request, response);
  }
  v1::TenantReport Describe(const std::string& name) {
    grpc::ClientContext context;
    v1::ListTenantsResponse listed;
    EXPECT_TRUE(stub_->ListTenants(&context, {}, &listed).ok());
    for (const v1::TenantReport& tenant : listed.tenants()) {
      if (tenant.name() == name) return tenant;
    }
    return {};
  }

 private:
  const std::unique_ptr<typename Admin::Stub> stub_;
};
using NodeOperator = Operator<v1::AgentAdmin>;
using ClusterOperator = Operator<v1::CoordinatorAdmin>;

constexpr absl::Duration kSettleTimeout = absl::Seconds(20);

class SetTenantsTest : public ::testing::Test {
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
  const std::string secrets_ = cluster_.WriteTenants({{"alpha", kAlphaSecret}});
  const Flags flags_ = {{"tenants_dir", secrets_}, {"slab_bytes", "1MiB"}};
};

TEST_F(SetTenantsTest, ATenantIsMadeWorksOutlastsARestartAndIsDropped) {
  AgentProcess& agent = cluster_.StartAgent("node-a", flags_);
  TestWorker alpha(Alpha(agent));
  ASSERT_EQ(alpha.Put(kPrefix), kPrefix.count);
  {
    NodeOperator node(agent.admin_address());
    ASSERT_TRUE(node.Set("beta", 5, kBetaSecret).ok());
    TestWorker beta(Beta(agent));
    ASSERT_EQ(beta.Put(kPrefix), kPrefix.count);
    EXPECT_THAT(beta.Get(kPrefix), SizeIs(kPrefix.count));
    ASSERT_TRUE(node.Set("beta", 7).ok());
    EXPECT_EQ(node.Describe("beta").settings_source(), "node");
  }
  ASSERT_TRUE(agent.AwaitOffloaded());
  agent.Kill();
  ASSERT_EQ(agent.Start().status(), absl::OkStatus());
  NodeOperator node(agent.admin_address());
  EXPECT_EQ(node.Describe("beta").settings().values(0).value(), 7u);
  TestWorker beta(Beta(agent));
  ASSERT_TRUE(beta.AwaitConnected() && alpha.AwaitConnected());
  EXPECT_THAT(beta.Get(kPrefix), SizeIs(kPrefix.count));

  const OnboardedBlocks held = beta.Hold(kPrefix);
  ASSERT_TRUE(held.valid());
  v1::DropTenantResponse dropped;
  const grpc::Status status = node.Drop("beta", &dropped);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_FALSE(held.valid()) << "its slots are free";
  EXPECT_EQ(dropped.sessions(), 1u);
  EXPECT_EQ(dropped.disk_blocks(), static_cast<uint64_t>(kPrefix.count));
  EXPECT_TRUE(dropped.had_settings());
  EXPECT_FALSE(std::filesystem::exists(secrets_ + "/beta"));
  EXPECT_THAT(beta.Get(kPrefix), IsEmpty());
  EXPECT_EQ(node.Describe("beta").name(), "");
  EXPECT_THAT(alpha.Get(kPrefix), SizeIs(kPrefix.count));
}

TEST_F(SetTenantsTest, ASecretThatIsMountedLetsItsTenantIn) {
  AgentProcess& agent = cluster_.StartAgent("node-a", flags_);
  cluster_.WriteTenants({{"beta", kBetaSecret}});
  TestWorker beta(Beta(agent));
  ASSERT_TRUE(Await(kSettleTimeout,
                    [&] { return beta.Put(kPrefix) == static_cast<size_t>(kPrefix.count); }));
  EXPECT_THAT(beta.Get(kPrefix), SizeIs(kPrefix.count));
}

TEST_F(SetTenantsTest, AMaximumThatLeavesATenantNoSlabIsRefusedByName) {
  NodeOperator node(cluster_.StartAgent("node-a", flags_).admin_address());
  EXPECT_THAT(node.SetField("alpha", v1::SHARE_MAXIMUM, (1 << 20) - 1).error_message(),
              HasSubstr("host_maximum: 1048575; must be 0 or at least one slab of 1048576 bytes"));
  EXPECT_TRUE(node.SetField("alpha", v1::SHARE_MAXIMUM, 1 << 20).ok());
}

TEST_F(SetTenantsTest, WhatIsSetForTheClusterReachesItsNodesAndOutlastsItsCoordinator) {
  CoordinatorProcess& coordinator = cluster_.StartCoordinator();
  AgentProcess& agent = cluster_.StartAgent("node-a", flags_);
  NodeOperator node(agent.admin_address());
  {
    ClusterOperator cluster(coordinator.admin_address());
    EXPECT_THAT(cluster.Set("alpha", 3, kAlphaSecret).error_message(),
                HasSubstr("must be empty for a coordinator"));
    ASSERT_TRUE(cluster.Set("alpha", 3).ok());
    EXPECT_EQ(cluster.Describe("alpha").settings().values(0).value(), 3u);
  }
  const auto weight = [&] {
    const v1::TenantReport alpha = node.Describe("alpha");
    for (const v1::TierShareReport& share : alpha.shares()) {
      if (share.tier() == v1::TIER_HOST) return share.weight();
    }
    return 0u;
  };
  ASSERT_TRUE(Await(kSettleTimeout, [&] { return weight() == 3; }));
  EXPECT_EQ(node.Describe("alpha").settings_source(), "cluster");
  // The node follows the settings before it has stored them.
  const std::string stored = absl::StrCat(agent.options().disk_dir, "/tenant_settings");
  ASSERT_TRUE(Await(kSettleTimeout, [&] { return std::filesystem::exists(stored); }));
  coordinator.Kill();
  agent.Kill();
  ASSERT_EQ(agent.Start().status(), absl::OkStatus());
  NodeOperator again(agent.admin_address());
  EXPECT_EQ(again.Describe("alpha").settings_source(), "cluster");
  ASSERT_TRUE(again.Set("alpha", 9).ok());
  EXPECT_EQ(again.Describe("alpha").settings_source(), "node");
  EXPECT_EQ(coordinator.Start(), absl::OkStatus());
  ClusterOperator cluster(coordinator.admin_address());
  EXPECT_EQ(cluster.Describe("alpha").settings().values(0).value(), 3u) << "it keeps them, too";
}

// Once, the first change after the loss of --data_dir had a version later than the nodes', and
// replaced all that they knew.
TEST_F(SetTenantsTest, ACoordinatorThatLostItsDataLearnsTheSettingsFromItsNodes) {
  CoordinatorProcess& coordinator = cluster_.StartCoordinator();
  AgentProcess& agent = cluster_.StartAgent("node-a", flags_);
  NodeOperator node(agent.admin_address());
  {
    ClusterOperator cluster(coordinator.admin_address());
    // The node may report between any two of these.
    ASSERT_TRUE(Await(kSettleTimeout, [&] { return cluster.Set("beta", 7).ok(); }));
    ASSERT_TRUE(Await(kSettleTimeout, [&] { return cluster.SetReader("ghost", "beta").ok(); }));
  }
  const auto knows_all = [&] {
    const v1::TenantReport beta = node.Describe("beta");
    const v1::TenantReport ghost = node.Describe("ghost");
    return beta.settings().values_size() == 1 && beta.settings().values(0).value() == 7u &&
           ghost.settings().members_size() == 1 && ghost.settings().members(0).tenant() == "beta";
  };
  ASSERT_TRUE(Await(kSettleTimeout, knows_all));

  coordinator.Kill();
  std::filesystem::remove_all(coordinator.data_dir());
  ASSERT_EQ(coordinator.Start(), absl::OkStatus());
  {
    ClusterOperator cluster(coordinator.admin_address());
    ASSERT_TRUE(Await(kSettleTimeout, [&] { return cluster.Set("gamma", 3).ok(); }));
    ASSERT_TRUE(Await(kSettleTimeout,
                      [&] { return node.Describe("gamma").settings().values_size() == 1; }));
    EXPECT_TRUE(knows_all());
    EXPECT_EQ(node.Describe("gamma").settings().values(0).value(), 3u);
    ASSERT_TRUE(Await(kSettleTimeout,
                      [&] { return cluster.Describe("ghost").settings().members_size() == 1; }));
    EXPECT_EQ(cluster.Describe("beta").settings().values(0).value(), 7u);
  }

  // The settings that came from the node are as durable as those that were set.
  coordinator.Kill();
  ASSERT_EQ(coordinator.Start(), absl::OkStatus());
  ClusterOperator again(coordinator.admin_address());
  EXPECT_EQ(again.Describe("beta").settings().values(0).value(), 7u);
}

}  // namespace
}  // namespace kvtier::testing
