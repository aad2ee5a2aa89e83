// Tests two agents of one name, as a copied unit file makes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::HasSubstr;

class NamesakeAgentsTest : public ::testing::Test {
 protected:
  static int Count(const std::string& text, const std::string& part) {
    int count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++count;
    return count;
  }
  std::string CoordinatorLog() const {
    std::stringstream text;
    text << std::ifstream(coordinator_.log()).rdbuf();
    return text.str();
  }
  v1::CoordinatorStatusResponse Coordinator() {
    return coordinator_.TryStatus().value_or(v1::CoordinatorStatusResponse());
  }

  ProcessCluster cluster_;
  CoordinatorProcess& coordinator_ = cluster_.StartCoordinator();
  AgentProcess& earlier_ = cluster_.StartAgent("node-a");
};

// Once, two agents of one name made the coordinator ask both for snapshots, for ever, and no log
// line said so.
TEST_F(NamesakeAgentsTest, TheLaterOneIsServedAndTheOtherSaysWhyItIsNot) {
  ASSERT_TRUE(Await(absl::Seconds(10), [&] { return Coordinator().nodes_size() == 1; }));
  AgentProcess& later = cluster_.StartAgent("node-b", {{"node_id", "node-a"}});
  ASSERT_TRUE(Await(absl::Seconds(10), [&] {
    return absl::StrContains(earlier_.Status().coordinator_refusal(), later.address());
  }));
  EXPECT_TRUE(Await(absl::Seconds(10), [&] { return later.Status().coordinator_connected(); }));

  const v1::CoordinatorStatusResponse before = Coordinator();
  ASSERT_TRUE(
      Await(absl::Seconds(20), [&] { return Coordinator().reports() > before.reports() + 8; }));
  const v1::CoordinatorStatusResponse now = Coordinator();
  EXPECT_EQ(now.resyncs(), before.resyncs());
  ASSERT_EQ(now.nodes_size(), 1);
  EXPECT_EQ(now.nodes(0).address(), later.address());
  EXPECT_EQ(now.nodes(0).namesake_address(), earlier_.address());
  EXPECT_EQ(Count(earlier_.LogText(), "refuses this node"), 1) << earlier_.LogText();
  EXPECT_EQ(Count(CoordinatorLog(), "two agents have this name"), 1) << CoordinatorLog();
  EXPECT_THAT(earlier_.LogText(), HasSubstr("--node_id"));

  later.Kill();
  EXPECT_TRUE(Await(absl::Seconds(20), [&] { return earlier_.Status().coordinator_connected(); }));
  EXPECT_EQ(earlier_.Status().coordinator_refusal(), "");
}

}  // namespace
}  // namespace kvtier::testing
