// Tests spaces whose blocks have lengths of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/testing/blocks.h"
#include "tests/testing/fake_node.h"

namespace kvtier {
namespace {

using testing::FakeNode;
using testing::FillBlock;
using ::testing::HasSubstr;
using testing::HoldsBlock;
using testing::TestKeys;
using State = ReservedBlocks::State;

class ClientLengthsTest : public ::testing::Test {
 protected:
  explicit ClientLengthsTest(const testing::FakeAgentOptions& agent = {.slots = 16})
      : node_(agent) {
    node_.agent().Start();
    client_ = node_.OpenClient();
    fixed_ = *client_->RegisterSpace(node_.space());
    SpaceSpec spec = node_.space();
    spec.any_length = true;
    space_ = *client_->RegisterSpace(spec);
  }
  absl::StatusOr<ReservedBlocks> Reserve(size_t keys, const std::vector<uint64_t>& lengths) {
    return client_->Reserve(space_, TestKeys(1, keys), {.lengths = lengths});
  }
  void ExpectRefused(const absl::Status& status, const std::string& why) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
  size_t Put(const std::vector<uint64_t>& lengths) {
    ReservedBlocks reserved = *Reserve(lengths.size(), lengths);
    const std::vector<EngineKey> keys = TestKeys(1, lengths.size());
    for (size_t i = 0; i < keys.size(); ++i) FillBlock(1, keys[i], reserved.slot(i));
    return reserved.Commit();
  }

  FakeNode node_;
  std::unique_ptr<Client> client_;
  SpaceHandle fixed_;
  SpaceHandle space_;
};

TEST_F(ClientLengthsTest, SlotsAndHitsAreAsLongAsTheirBlocks) {
  const std::vector<uint64_t> lengths = {1, 4096, FakeNode::kBlockBytes};
  ReservedBlocks reserved = *Reserve(3, lengths);
  const std::vector<EngineKey> keys = TestKeys(1, 3);
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(reserved.slot(i).size(), lengths[i]);
    FillBlock(1, keys[i], reserved.slot(i));
  }
  ASSERT_EQ(reserved.Commit(), 3U);
  EXPECT_EQ(client_->Stats().committed_bytes, 1U + 4096 + FakeNode::kBlockBytes);
  const OnboardedBlocks hit = *client_->Onboard(space_, keys);
  ASSERT_EQ(hit.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(hit.bytes(i).size(), lengths[i]);
    EXPECT_TRUE(HoldsBlock(1, keys[i], hit.bytes(i)));
  }
  EXPECT_EQ(client_->Stats().onboarded_bytes, 1U + 4096 + FakeNode::kBlockBytes);
}

TEST_F(ClientLengthsTest, CopiesTakeThePiecesOfTheBlockAlone) {
  ReservedBlocks reserved = *Reserve(1, {3000});
  const std::vector<std::byte> bytes(3001, std::byte{7});
  const std::vector<ConstPiece> longer = {std::span(bytes)};
  ExpectRefused(reserved.CopyIn(0, longer), "pieces have 3001 bytes; must have the block's 3000");
  const std::vector<ConstPiece> pieces = {std::span(bytes).first(1000),
                                          std::span(bytes).first(2000)};
  ASSERT_EQ(reserved.CopyIn(0, pieces), absl::OkStatus());
  ASSERT_EQ(reserved.Commit(), 1U);
  const OnboardedBlocks hit = *client_->Onboard(space_, TestKeys(1, 1));
  std::vector<std::byte> copy(3000);
  const Piece whole(copy);
  EXPECT_EQ(hit.CopyOut(0, {&whole, 1}), absl::OkStatus());
  EXPECT_EQ(copy, std::vector(3000, std::byte{7}));
}

TEST_F(ClientLengthsTest, ASumThatADeviceTookIsSentAndTheTailIsZeroed) {
  ReservedBlocks reserved = *Reserve(1, {3000});
  const std::span<std::byte> slot = reserved.slot(0);
  std::fill_n(slot.data(), 4096, std::byte{7});
  // Deliberately not the sum of these bytes, so that its use shows.
  const PayloadSum sum = {.hi = 1, .lo = 2};
  reserved.NoteSum(0, sum);
  EXPECT_EQ(slot.data()[2999], std::byte{7});
  EXPECT_EQ(std::count(slot.data() + 3000, slot.data() + 4096, std::byte{0}), 1096);
  ASSERT_EQ(reserved.Commit(), 1U);
  const OnboardedBlocks hit = *client_->Onboard(space_, TestKeys(1, 1));
  ASSERT_EQ(hit.size(), 1U);
  EXPECT_EQ(hit.CheckSum(0, sum), absl::OkStatus());
  EXPECT_EQ(hit.Prove(0).code(), absl::StatusCode::kDataLoss);
}

TEST_F(ClientLengthsTest, OneCallMixesSpacesOfOneLengthAndOfAny) {
  const std::vector<EngineKey> keys = TestKeys(1, 2);
  const std::vector<uint64_t> lengths = {100, 200};
  const std::vector<uint64_t> others = {300, 400};
  const std::vector<KeySequence> sequences = {
      {.space = space_, .keys = keys, .no_store = true, .lengths = others},
      {.space = fixed_, .keys = keys},
      {.space = space_, .keys = keys, .lengths = lengths}};
  const ReservedBlocks reserved = *client_->Reserve(sequences);
  ASSERT_EQ(reserved.size(), 6U);
  EXPECT_EQ(reserved.state(0), State::kNoStore);
  EXPECT_EQ(reserved.slot(2).size(), FakeNode::kBlockBytes);
  EXPECT_EQ(reserved.slot(4).size(), 100U);
  EXPECT_EQ(reserved.slot(5).size(), 200U);
}

TEST_F(ClientLengthsTest, ALengthThatCannotBeIsNamed) {
  ExpectRefused(Reserve(2, {}).status(), "lengths: 0 for 2 keys; must be one for each");
  ExpectRefused(Reserve(2, {1, 2, 3}).status(), "lengths: 3 for 2 keys");
  ExpectRefused(Reserve(2, {1, 0}).status(), "lengths[1] is 0; must be 1 to 5000");
  ExpectRefused(Reserve(2, {5001, 1}).status(), "lengths[0] is 5001; must be 1 to 5000");
  const std::vector<uint64_t> one = {FakeNode::kBlockBytes};
  ExpectRefused(client_->Reserve(fixed_, TestKeys(1, 1), {.lengths = one}).status(),
                "must be none in a space without any_length");
  const std::vector<EngineKey> keys = TestKeys(1, 1);
  const KeySequence sequence{.space = space_, .keys = keys, .lengths = one};
  ExpectRefused(client_->Reserve({&sequence, 1}, {.lengths = one}).status(),
                "lengths must not be given with sequences");
  ExpectRefused(client_->SubmitReserve(space_, keys, {}, [](ReservedBlocks) {}),
                "lengths: 0 for 1 keys");
  ExpectRefused(
      client_->Reserve(space_, keys, {.target = OnboardTarget::kGpu, .lengths = one}).status(),
      "target is the GPU pool");
}

TEST_F(ClientLengthsTest, CallsThatReserveNothingTakeNoNoticeOfLengths) {
  ASSERT_EQ(Put({100, 200}), 2U);
  const std::vector<EngineKey> keys = TestKeys(1, 2);
  const std::vector<uint64_t> wrong = {77};
  const KeySequence run{.space = space_, .keys = keys, .lengths = wrong};
  EXPECT_EQ((*client_->Match({&run, 1}))[0].blocks, 2U);
  EXPECT_EQ((*client_->Onboard({&run, 1}))[0].bytes(1).size(), 200U);
}

TEST_F(ClientLengthsTest, WithoutAnAgentThereIsNoRoom) {
  node_.agent().Kill();
  const ReservedBlocks reserved = *Reserve(2, {1, 2});
  EXPECT_FALSE(reserved.answered());
  EXPECT_EQ(reserved.state(1), State::kNoRoom);
}

class LyingAgentTest : public ClientLengthsTest {
 protected:
  // A block of this length would still end within the arena.
  LyingAgentTest() : ClientLengthsTest({.slots = 16, .leased_length = FakeNode::kBlockBytes + 1}) {}
};

TEST_F(LyingAgentTest, ABlockLongerThanTheSpacesLongestIsAMiss) {
  ASSERT_EQ(Put({FakeNode::kBlockBytes}), 1U);
  EXPECT_EQ(client_->Onboard(space_, TestKeys(1, 1))->size(), 0U);
}

class FixedLengthTest : public ClientLengthsTest {
 protected:
  FixedLengthTest() : ClientLengthsTest({.slots = 16, .leased_length = 100}) {}
};

TEST_F(FixedLengthTest, AShorterBlockIsAMissUnlessTheSpaceHasAnyLength) {
  ASSERT_EQ(testing::PutBlocks(client_.get(), fixed_, TestKeys(1, 1)), 1U);
  EXPECT_EQ(client_->Onboard(fixed_, TestKeys(1, 1))->size(), 0U);
  ASSERT_EQ(Put({200}), 1U);
  EXPECT_EQ(client_->Onboard(space_, TestKeys(1, 1))->bytes(0).size(), 100U);
}

TEST(ClientLengths, AnAgentThatDoesNotKnowOfThemIsNotGivenTheSpace) {
  FakeNode node({.knows_codecs = false});
  node.agent().Start();
  const auto client = node.OpenClient();
  SpaceSpec spec = node.space();
  spec.any_length = true;
  const SpaceHandle space = *client->RegisterSpace(spec);
  EXPECT_EQ(
      client->Reserve(space, TestKeys(1, 1), {.lengths = std::vector<uint64_t>{1}})->reserved(),
      0U);
  EXPECT_THAT(client->Stats().last_error, HasSubstr("any_length true"));
}

}  // namespace
}  // namespace kvtier
