// Tests tenants that are made, changed and dropped while real agents run, on a node and for a
// cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
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
  // Begins settings, at a coordinator.
  grpc::Status Init(uint64_t replaced = 0) {
    v1::InitTenantsRequest request;
    request.set_replaced_store(replaced);
    grpc::ClientContext context;
    v1::InitTenantsResponse response;
    return stub_->InitTenants(&context, request, &response);
  }
  v1::ClusterTenants Export() {
    grpc::ClientContext context;
    v1::ExportTenantsResponse response;
    const grpc::Status status = stub_->ExportTenants(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.tenants();
  }
  grpc::Status Import(const v1::ClusterTenants& tenants) {
    v1::ImportTenantsRequest request;
    *request.mutable_tenants() = tenants;
    grpc::ClientContext context;
    v1::ImportTenantsResponse response;
    return stub_->ImportTenants(&context, request, &response);
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

// Returns how many mappings of arenas of tenant beta, and descriptors of them, the process has.
size_t ArenasIn(pid_t process) {
  const std::string folder = absl::StrCat("/proc/", process);
  size_t count = 0;
  std::ifstream maps(folder + "/maps");
  for (std::string line; std::getline(maps, line);) {
    count += absl::StrContains(line, "/memfd:kvtier-beta") ? 1 : 0;
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/fd", error)) {
    const std::string name = std::filesystem::read_symlink(entry.path(), error).string();
    count += absl::StrContains(name, "/memfd:kvtier-beta") ? 1 : 0;
  }
  return count;
}

// Once, 614 drops cost the agent 80 GiB of addresses and 1,230 descriptors.
TEST_F(SetTenantsTest, DroppedTenantsLeaveNothingInTheAgentAndInTheirWorkers) {
  AgentProcess& agent = cluster_.StartAgent("node-a", flags_);
  NodeOperator node(agent.admin_address());
  const auto left = [&] { return ArenasIn(agent.process().pid()) + ArenasIn(getpid()); };
  for (int drop = 0; drop < 5; ++drop) {
    // The name is free when all that the tenant held is gone.
    ASSERT_TRUE(Await(kSettleTimeout, [&] { return node.Set("beta", 5, kBetaSecret).ok(); }));
    TestWorker beta(Beta(agent));
    ASSERT_EQ(beta.Put(kPrefix), kPrefix.count);
    EXPECT_THAT(beta.Get(kPrefix), SizeIs(kPrefix.count));
    EXPECT_GE(ArenasIn(agent.process().pid()), 3u);
    EXPECT_GE(ArenasIn(getpid()), 2u) << "one to read, one to write";
    v1::DropTenantResponse dropped;
    ASSERT_TRUE(node.Drop("beta", &dropped).ok());
    EXPECT_TRUE(Await(kSettleTimeout, [&] { return left() == 0; })) << left() << " after " << drop;
  }
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
    EXPECT_THAT(cluster.Set("alpha", 3).error_message(), HasSubstr("kvtier tenants init"));
    ASSERT_TRUE(cluster.Init().ok());
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

// Follows a cluster's settings through the loss of the coordinator's data.
class LostSettingsTest : public SetTenantsTest {
 protected:
  LostSettingsTest() {
    EXPECT_TRUE(Cluster().Init().ok());
    EXPECT_TRUE(Cluster().Set("beta", 7).ok());
    EXPECT_TRUE(Cluster().SetReader("ghost", "beta").ok());
    EXPECT_TRUE(Await(kSettleTimeout, [&] { return KnowsAll(); }));
  }
  void Lose() {
    coordinator_.Kill();
    std::filesystem::remove_all(coordinator_.data_dir());
    ASSERT_EQ(coordinator_.Start(), absl::OkStatus());
    ASSERT_TRUE(agent_.AwaitCoordinator());
  }
  ClusterOperator Cluster() { return ClusterOperator(coordinator_.admin_address()); }
  NodeOperator Node() { return NodeOperator(agent_.admin_address()); }
  uint64_t WeightOnNode(const std::string& tenant) {
    const v1::TenantReport found = Node().Describe(tenant);
    return found.settings().values_size() == 1 ? found.settings().values(0).value() : 0;
  }
  bool KnowsAll() {
    const v1::TenantReport ghost = Node().Describe("ghost");
    return WeightOnNode("beta") == 7 && ghost.settings().members_size() == 1 &&
           ghost.settings().members(0).tenant() == "beta";
  }
  // Returns whether the coordinator warns of what the node follows.
  bool IsWarned() {
    const auto status = coordinator_.TryStatus();
    return status.ok() && status->nodes_size() == 1 && status->nodes(0).settings_differ();
  }

  CoordinatorProcess& coordinator_ = cluster_.StartCoordinator();
  AgentProcess& agent_ = cluster_.StartAgent("node-a", flags_);
};

TEST_F(LostSettingsTest, ANodesExportBringsThemBackAndChangesGoOnTop) {
  const v1::ClusterTenants followed = Node().Export();
  EXPECT_EQ(followed.SerializeAsString(), Cluster().Export().SerializeAsString());
  Lose();
  ASSERT_TRUE(Await(kSettleTimeout, [&] { return IsWarned(); }));
  EXPECT_THAT(Cluster().Set("gamma", 3).error_message(), HasSubstr("kvtier tenants import FILE"));
  EXPECT_TRUE(KnowsAll());
  ASSERT_TRUE(Cluster().Import(followed).ok());
  ASSERT_TRUE(Await(kSettleTimeout, [&] { return !IsWarned(); }));
  ASSERT_TRUE(Cluster().Set("gamma", 3).ok());
  ASSERT_TRUE(Await(kSettleTimeout, [&] { return WeightOnNode("gamma") == 3; }));
  EXPECT_TRUE(KnowsAll());
  // Imported settings are as durable as those that were set.
  coordinator_.Kill();
  ASSERT_EQ(coordinator_.Start(), absl::OkStatus());
  EXPECT_EQ(Cluster().Describe("beta").settings().values(0).value(), 7u);
}

TEST_F(LostSettingsTest, SettingsThatBeginAgainTakeNothingFromANodeUntilTheyReplaceItsOwn) {
  const uint64_t lost = Node().Export().store();
  Lose();
  ASSERT_TRUE(Cluster().Init().ok());
  for (uint64_t weight = 1; weight <= 9; ++weight) {
    ASSERT_TRUE(Cluster().Set("gamma", weight).ok());
  }
  ASSERT_TRUE(Await(kSettleTimeout, [&] { return IsWarned(); }));
  agent_.Kill();
  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  ASSERT_TRUE(Await(kSettleTimeout, [&] { return IsWarned(); }));
  EXPECT_TRUE(KnowsAll());
  EXPECT_EQ(WeightOnNode("gamma"), 0);
  ASSERT_TRUE(Cluster().Init(lost).ok());
  ASSERT_TRUE(Await(kSettleTimeout, [&] { return WeightOnNode("gamma") == 9; }));
  EXPECT_FALSE(KnowsAll());
  ASSERT_TRUE(Await(kSettleTimeout, [&] { return !IsWarned(); }));
}

}  // namespace
}  // namespace kvtier::testing
