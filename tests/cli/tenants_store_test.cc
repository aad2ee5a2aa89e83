// Tests the verbs that copy, bring back and begin the settings of a cluster, and the warnings where
// nodes follow others.
#include "cli/tenants_store.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/nodes.h"
#include "cli/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/convert.h"
#include "tests/testing/fake_admin.h"

namespace kvtier::cli {
namespace {

using kvtier::testing::AdminServer;
using kvtier::testing::FakeAgentAdmin;
using kvtier::testing::FakeCoordinatorAdmin;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// Nobody listens on a port that only root could have.
constexpr char kNobody[] = "127.0.0.1:1";

Outcome Kvtier(std::vector<std::string> words) { return RunCommand(words); }

class TenantsStoreTest : public ::testing::Test {
 protected:
  TenantsStoreTest() {
    *agent_.status_response.mutable_version() = convert::OurVersion("kvtier-agent 0.1.0");
    *coordinator_.status_response.mutable_version() = agent_.status_response.version();
  }

  FakeAgentAdmin agent_;
  FakeCoordinatorAdmin coordinator_;
  AdminServer agent_server_{&agent_};
  AdminServer coordinator_server_{&coordinator_};
  const std::string agent_at_ = agent_server_.address();
  const std::string coordinator_at_ = coordinator_server_.address();
};

// Once, they printed no JSON when they failed, unlike all other verbs.
TEST_F(TenantsStoreTest, AFailureIsJsonForPrograms) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"nodes", "--coordinator", kNobody},
        {"nodes", "--agent", agent_at_},
        {"settings", "--coordinator", kNobody},
        {"settings", "get", "gone", "--coordinator", coordinator_at_},
        {"settings", "set", "frozen=1", "--coordinator", coordinator_at_},
        {"tenants", "--coordinator", kNobody},
        {"tenants", "init", "--coordinator", kNobody},
        {"tenants", "import", "/nowhere", "--coordinator", coordinator_at_}}) {
    std::vector<std::string> asked = words;
    const Outcome text = Kvtier(asked);
    EXPECT_THAT(text.out, IsEmpty());
    asked.insert(asked.end(), {"-o", "json"});
    const Outcome outcome = Kvtier(asked);
    EXPECT_NE(outcome.code, ExitCode::kOk);
    EXPECT_EQ(outcome.code, text.code);
    EXPECT_EQ(outcome.err, text.err);
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("\"schema_version\": 1"), HasSubstr("\"address\": \""),
                                   HasSubstr("\"error\": \"")))
        << words[0];
  }
}

TEST_F(TenantsStoreTest, WhatIsExportedIsImported) {
  v1::ClusterTenants* const tenants = coordinator_.exported.mutable_tenants();
  tenants->set_store(0xa0);
  tenants->set_version(7);
  tenants->add_replaced(0xb0);
  tenants->add_tenants()->set_name("acme");
  const Outcome exported = Kvtier({"tenants", "export", "--coordinator", coordinator_at_});
  ASSERT_EQ(exported.code, ExitCode::kOk) << exported.err;
  const std::string path = ::testing::TempDir() + "kvtier-command-export";
  std::ofstream(path) << exported.out;
  v1::NodeReport* const node = coordinator_.status_response.add_nodes();
  node->set_node_id("n7");
  node->set_settings_store(0xa0);
  node->set_settings_version(9);
  node->set_settings_differ(true);
  const Outcome imported =
      Kvtier({"tenants", "import", path, "--coordinator", coordinator_at_, "--yes"});
  EXPECT_EQ(imported.code, ExitCode::kOk) << imported.err;
  EXPECT_THAT(imported.out, AllOf(HasSubstr("has version 7 of store 00000000000000a0"),
                                  HasSubstr("version 9 of store 00000000000000a0, hold on n7")))
      << "an operator is told at once that a node knows later ones";
  EXPECT_EQ(coordinator_.import_asked.tenants().SerializeAsString(), tenants->SerializeAsString());
  EXPECT_TRUE(coordinator_.import_asked.replace());
  std::ofstream(path) << exported.out.substr(0, exported.out.size() - 5);
  const Outcome cut = Kvtier({"tenants", "import", path, "--coordinator", coordinator_at_});
  EXPECT_EQ(cut.code, ExitCode::kFailed);
  EXPECT_THAT(cut.err, AllOf(HasSubstr(path), HasSubstr("must be what kvtier tenants export")));
}

TEST_F(TenantsStoreTest, SettingsBeginAtACoordinator) {
  const Outcome begun = Kvtier({"tenants", "init", "--coordinator", coordinator_at_});
  EXPECT_EQ(begun.code, ExitCode::kOk) << begun.err;
  EXPECT_EQ(begun.out, "The coordinator has version 1 of store 00000000000000b0.\n");
  EXPECT_EQ(coordinator_.init_asked.replaced_store(), 0u);
  EXPECT_THAT(Kvtier({"tenants", "init", "--replace", "00000000000000a0", "--coordinator",
                      coordinator_at_, "-o", "json"})
                  .out,
              HasSubstr("\"settings_store\": \"00000000000000b0\""));
  EXPECT_EQ(coordinator_.init_asked.replaced_store(), 0xa0u);
}

// The warning is the same in `nodes` and in the health of `status`, for people and programs.
TEST(NodesTable, NamesNodesThatFollowSettingsWhichAreNotHere) {
  v1::CoordinatorStatusResponse status;
  status.set_settings_store(0xb0);
  status.set_settings_version(3);
  for (int i = 1; i <= 6; ++i) {
    v1::NodeReport* const node = status.add_nodes();
    node->set_node_id(absl::StrCat("n", i));
    node->set_settings_store(0xa0);
    node->set_settings_version(7);
    node->set_settings_differ(i != 2);
  }
  const std::string said =
      "settings of tenants that are not here, version 7 of store 00000000000000a0, hold on n1, n3, "
      "n4, n5 and 1 more (here: version 3 of store 00000000000000b0): to have them here, import "
      "what kvtier tenants export prints on such a node; to give them up, kvtier tenants init "
      "--replace 00000000000000a0";
  EXPECT_THAT(NodesTable(status), HasSubstr(said + "\n"));
  EXPECT_THAT(NodesJson(status), AllOf(HasSubstr("\"settings_store\": \"00000000000000a0\""),
                                       HasSubstr("\"settings_differ\": true")));
  const StatusReport report = {.coordinator = Answer<v1::CoordinatorStatusResponse>{"c", status}};
  EXPECT_THAT(StatusTable(report), HasSubstr(said));
  EXPECT_THAT(StatusJson(report), HasSubstr(said));
  status.set_settings_store(0xa0);
  EXPECT_THAT(NodesTable(status), Not(HasSubstr("--replace"))) << "only an older version is here";
}

TEST(StatusJson, SaysThatACoordinatorIsWellAndKnowsNoSettings) {
  const StatusReport report = {
      .coordinator = Answer<v1::CoordinatorStatusResponse>{"c", v1::CoordinatorStatusResponse()}};
  EXPECT_THAT(StatusJson(report),
              AllOf(HasSubstr("\"health\": \"\""), HasSubstr("\"settings_store\": null")));
}

// Whoever reaches the port can report so.
TEST(NodesTable, NamesAFewStoresOfMany) {
  v1::CoordinatorStatusResponse status;
  for (uint64_t i = 1; i <= 4096; ++i) {
    v1::NodeReport* const node = status.add_nodes();
    node->set_node_id(absl::StrCat("n", i));
    node->set_settings_store(i);
    node->set_settings_version(1);
    node->set_settings_differ(true);
  }
  EXPECT_THAT(Complaints(status), SizeIs(5));
  EXPECT_EQ(Complaints(status).back(), "and 4092 more versions of settings that are not here");
}

TEST(Complaints, SayThatTheCoordinatorLacksTheNodesSettings) {
  v1::AgentStatusResponse status;
  status.set_coordinator_settings_differ(true);
  EXPECT_THAT(Complaints(status), ElementsAre(HasSubstr("lacks the settings of tenants")));
}

TEST(Complaints, SayThatOtherMachinesAreToldAnAddressOfThisOne) {
  v1::AgentStatusResponse status;
  status.set_coordinator_connected(true);
  for (const char* const told : {"127.0.0.1:7301", "localhost:7301", "[::1]:7301"}) {
    status.set_told_address(told);
    status.set_coordinator_address("10.0.0.1:7300");
    EXPECT_THAT(Complaints(status), ElementsAre(AllOf(HasSubstr(told), HasSubstr("--advertise"))));
    status.set_coordinator_address("coordinator:7300");
    EXPECT_THAT(Complaints(status), SizeIs(1));
    status.set_coordinator_address("127.0.0.1:7300");
    EXPECT_THAT(Complaints(status), IsEmpty()) << "all are on this machine";
  }
  status.set_told_address("10.0.0.2:7301");
  status.set_coordinator_address("10.0.0.1:7300");
  EXPECT_THAT(Complaints(status), IsEmpty());
}

}  // namespace
}  // namespace kvtier::cli
