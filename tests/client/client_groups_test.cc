// Tests a client in a share group, which names the group and is told whether it is a member.
#include <memory>
#include <string>

#include "client/client.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_node.h"

namespace kvtier {
namespace {

using testing::Eventually;
using testing::FakeNode;
using testing::GetBlocks;
using testing::PutBlocks;
using testing::TestKeys;

TEST(ClientGroupTest, AClientWorksInItsShareGroupAlsoAfterAReconnect) {
  FakeNode node({.group = "prompts"});
  node.agent().Start();
  ClientOptions options = node.client_options();
  options.group = "prompts";
  const std::unique_ptr<Client> client = *Client::Open(options);
  const SpaceHandle space = *client->RegisterSpace(node.space());
  EXPECT_EQ(PutBlocks(client.get(), space, TestKeys(1, 2)), 2U);
  node.agent().Kill();
  node.agent().Start();
  EXPECT_TRUE(Eventually([&] { return PutBlocks(client.get(), space, TestKeys(1, 2)) == 2U; }));
}

TEST(ClientGroupTest, AClientThatIsNoMemberIsToldSoAndServesMisses) {
  FakeNode node({.group = "prompts"});
  node.agent().Start();
  ClientOptions options = node.client_options();
  options.group = "others";
  const std::unique_ptr<Client> client = *Client::Open(options);
  EXPECT_FALSE(client->connected());
  EXPECT_EQ(GetBlocks(client.get(), *client->RegisterSpace(node.space()), TestKeys(1, 2)), 0U);
  EXPECT_NE(client->Stats().last_error.find("or no share group \"others\" that it is a member of"),
            std::string::npos)
      << client->Stats().last_error;
}

}  // namespace
}  // namespace kvtier
