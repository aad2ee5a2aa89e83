// Tests what a client knows of the node's blocks without a call: Client::Residences(),
// ResidentRun().
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <vector>

#include "client/client.h"
#include "tests/testing/fake_node.h"

namespace kvtier {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::Eventually;
using testing::FakeNode;
using testing::PutBlocks;
using testing::TestKeys;

class ClientResidencyTest : public ::testing::Test {
 protected:
  ClientResidencyTest() {
    node_.agent().Start();
    client_ = node_.OpenClient();
    space_ = *client_->RegisterSpace(node_.space());
  }
  std::vector<Residence> Residences(std::span<const EngineKey> keys) const {
    std::vector<Residence> said(keys.size(), Residence::kDisk);
    EXPECT_EQ(client_->Residences(space_, keys, said), absl::OkStatus());
    return said;
  }
  size_t Run(std::span<const EngineKey> keys) const { return *client_->ResidentRun(space_, keys); }

  FakeNode node_;
  std::unique_ptr<Client> client_;
  SpaceHandle space_{};
};

TEST_F(ClientResidencyTest, ASetMayHaveHoles) {
  PutBlocks(client_.get(), space_, TestKeys(2, 1));
  PutBlocks(client_.get(), space_, TestKeys(4, 1));
  EXPECT_THAT(Residences(TestKeys(1, 4)), ElementsAre(Residence::kAbsent, Residence::kHost,
                                                      Residence::kAbsent, Residence::kHost));
  EXPECT_THAT(Residences({}), ElementsAre());
}

TEST_F(ClientResidencyTest, ARunEndsAtTheFirstThatIsAbsent) {
  const std::vector<EngineKey> keys = TestKeys(1, 30);
  PutBlocks(client_.get(), space_, std::span(keys).first(20));
  PutBlocks(client_.get(), space_, std::span(keys).subspan(21, 5));
  EXPECT_EQ(Run(keys), 20);
  EXPECT_EQ(Run(std::span(keys).first(20)), 20);
  EXPECT_EQ(Run(std::span(keys).subspan(20)), 0);
  EXPECT_EQ(Run(std::span(keys).subspan(21)), 5);
  EXPECT_EQ(Run({}), 0);
}

TEST_F(ClientResidencyTest, BlocksOfAnotherSpaceAreAbsent) {
  PutBlocks(client_.get(), space_, TestKeys(1, 2));
  SpaceSpec spec = node_.space();
  spec.weights_digest = "another epoch";
  const SpaceHandle other = *client_->RegisterSpace(spec);
  EXPECT_EQ(*client_->ResidentRun(other, TestKeys(1, 2)), 0);
}

TEST_F(ClientResidencyTest, NoCallIsMade) {
  PutBlocks(client_.get(), space_, TestKeys(1, 2));
  const size_t calls = node_.agent().Counts().calls;
  const uint64_t counted = client_->Stats().calls;
  node_.agent().HangCalls(testing::FakeAgent::Hang::kAll);
  EXPECT_EQ(Run(TestKeys(1, 3)), 2);
  EXPECT_THAT(Residences(TestKeys(1, 2)), Each(Residence::kHost));
  EXPECT_EQ(node_.agent().Counts().calls, calls);
  EXPECT_EQ(client_->Stats().calls, counted);
  node_.agent().Resume();
}

TEST_F(ClientResidencyTest, WhatCannotBeAskedIsNamed) {
  std::vector<Residence> said(2);
  const absl::Status size = client_->Residences(space_, TestKeys(1, 3), said);
  EXPECT_TRUE(absl::IsInvalidArgument(size));
  EXPECT_THAT(size.message(), ::testing::HasSubstr("2 entries for 3 keys"));
  EXPECT_TRUE(absl::IsInvalidArgument(client_->Residences(SpaceHandle{9}, TestKeys(1, 2), said)));
  EXPECT_TRUE(absl::IsInvalidArgument(
      client_->ResidentRun(space_, TestKeys(1, Client::kMaxKeys + 1)).status()));
}

// A retired table says that it is retired: the reader asks for the next one.
TEST_F(ClientResidencyTest, ALargerTableIsFoundWithoutANewSession) {
  PutBlocks(client_.get(), space_, TestKeys(1, 1));
  node_.agent().GrowResidency();
  PutBlocks(client_.get(), space_, TestKeys(2, 1));
  const std::vector<EngineKey> keys = TestKeys(1, 3);
  const std::vector<Residence> first = Residences(keys);
  const std::vector<Residence> now = {Residence::kHost, Residence::kHost, Residence::kAbsent};
  EXPECT_TRUE(first == now || first == std::vector(3, Residence::kPerhaps));
  EXPECT_TRUE(Eventually([&] { return Residences(keys) == now; }));
  EXPECT_EQ(client_->Stats().sessions, 1);
}

TEST_F(ClientResidencyTest, OfARetiredTableARunIsPerhapsWhole) {
  node_.agent().GrowResidency();
  const size_t run = Run(TestKeys(1, 100));
  EXPECT_TRUE(run == 100 || run == 0) << run;
  EXPECT_TRUE(Eventually([&] { return Run(TestKeys(1, 100)) == 0; }));
}

TEST_F(ClientResidencyTest, TablesThatGrowAgainAndAgainAreFollowed) {
  const std::vector<EngineKey> keys = TestKeys(1, 8);
  for (size_t i = 0; i < keys.size(); ++i) {
    PutBlocks(client_.get(), space_, std::span(keys).subspan(i, 1));
    node_.agent().GrowResidency();
    EXPECT_GE(Run(std::span(keys).first(i + 1)), i + 1);
    EXPECT_TRUE(Eventually([&] { return Run(keys) == i + 1; })) << i;
  }
}

// After an agent's restart old maps are misses, and the client maps the new table by itself.
TEST_F(ClientResidencyTest, WithoutAnAgentEverythingIsAbsentAndTheNextAgentIsFound) {
  PutBlocks(client_.get(), space_, TestKeys(1, 2));
  EXPECT_EQ(Run(TestKeys(1, 2)), 2);
  node_.agent().Kill();
  EXPECT_TRUE(Eventually([&] { return Run(TestKeys(1, 2)) == 0; }));
  EXPECT_THAT(Residences(TestKeys(1, 2)), Each(Residence::kAbsent));
  node_.agent().Start();
  ASSERT_TRUE(Eventually([&] { return client_->Stats().sessions == 2; }));
  EXPECT_EQ(Run(TestKeys(1, 2)), 0) << "the next agent begins with nothing";
  ASSERT_EQ(PutBlocks(client_.get(), space_, TestKeys(1, 1)), 1);
  EXPECT_EQ(Run(TestKeys(1, 2)), 1);
}

TEST(ClientWithoutResidencyTest, AnAgentWithoutATableIsToBeAsked) {
  FakeNode node({.has_residency = false});
  node.agent().Start();
  const std::unique_ptr<Client> client = node.OpenClient();
  const SpaceHandle space = *client->RegisterSpace(node.space());
  std::vector<Residence> said(3);
  ASSERT_EQ(client->Residences(space, TestKeys(1, 3), said), absl::OkStatus());
  EXPECT_THAT(said, Each(Residence::kPerhaps));
  EXPECT_EQ(*client->ResidentRun(space, TestKeys(1, 3)), 3);
}

TEST(ClientWithoutResidencyTest, AClientThatNeverHadAnAgentSaysAbsent) {
  FakeNode node;
  const std::unique_ptr<Client> client = node.OpenClient();
  const SpaceHandle space = *client->RegisterSpace(node.space());
  std::vector<Residence> said(3);
  ASSERT_EQ(client->Residences(space, TestKeys(1, 3), said), absl::OkStatus());
  EXPECT_THAT(said, Each(Residence::kAbsent));
}

// The keys of one tenant reveal nothing of another's blocks, even if engine keys are equal.
TEST(ClientWithoutResidencyTest, AnotherSecretNamesOtherBlocks) {
  const SpaceDigest digest = FakeNode().space().Digest();
  const EngineKey key = TestKeys(1, 1).front();
  EXPECT_NE(BlockNamer(TenantKey::FromSecret("a secret of 16 bytes"), digest).Name(key).lo >> 3,
            BlockNamer(TenantKey::FromSecret(""), digest).Name(key).lo >> 3);
}

}  // namespace
}  // namespace kvtier
