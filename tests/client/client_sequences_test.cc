// Tests sets, and several runs and sets in one call.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/client.h"
#include "core/miss_reason.h"
#include "tests/testing/blocks.h"
#include "tests/testing/fake_node.h"

namespace kvtier {
namespace {

using testing::Eventually;
using testing::FakeNode;
using testing::PutBlocks;
using testing::TestKeys;

class ClientSequencesTest : public ::testing::Test {
 protected:
  ClientSequencesTest() : node_({.slots = 16}) {
    node_.agent().Start();
    client_ = node_.OpenClient();
    space_ = *client_->RegisterSpace(node_.space());
    SpaceSpec spec = node_.space();
    spec.weights_digest = "another rank";
    other_space_ = *client_->RegisterSpace(spec);
  }

  FakeNode node_;
  std::unique_ptr<Client> client_;
  SpaceHandle space_;
  SpaceHandle other_space_;
};

TEST_F(ClientSequencesTest, ASetSaysWhichKeyEachBlockIsOf) {
  PutBlocks(client_.get(), space_, TestKeys(1, 1));
  PutBlocks(client_.get(), space_, TestKeys(3, 1));
  const std::vector<EngineKey> keys = TestKeys(1, 4);
  const KeySequence set{.space = space_, .keys = keys, .is_set = true};
  const std::vector<OnboardedBlocks> hits = *client_->Onboard(std::span(&set, 1));
  ASSERT_EQ(hits.size(), 1U);
  ASSERT_EQ(hits[0].size(), 2U);
  EXPECT_EQ(hits[0].key_index(0), 0U);
  EXPECT_EQ(hits[0].key_index(1), 2U);
  EXPECT_EQ(hits[0].missed(), MissReason::kAbsent);
  const OnboardedBlocks third = *client_->Onboard(space_, TestKeys(3, 1));
  ASSERT_EQ(third.size(), 1U);
  EXPECT_EQ(hits[0].offset(1), third.offset(0));
  const std::vector<MatchedSequence> matched = *client_->Match(std::span(&set, 1));
  EXPECT_EQ(matched[0].blocks, 2U);
  EXPECT_EQ(matched[0].tiers, (std::vector<std::optional<Tier>>{Tier::kHost, std::nullopt,
                                                                Tier::kHost, std::nullopt}));
}

TEST_F(ClientSequencesTest, OneCallServesSeveralSpaces) {
  const std::vector<EngineKey> keys = TestKeys(1, 3);
  PutBlocks(client_.get(), space_, keys);
  PutBlocks(client_.get(), other_space_, TestKeys(1, 2));
  const std::vector<KeySequence> sequences = {{.space = space_, .keys = keys},
                                              {.space = other_space_, .keys = keys}};
  const std::vector<OnboardedBlocks> hits = *client_->Onboard(sequences);
  ASSERT_EQ(hits.size(), 2U);
  EXPECT_EQ(hits[0].size(), 3U);
  EXPECT_EQ(hits[0].missed(), MissReason::kNone);
  EXPECT_EQ(hits[1].size(), 2U);
  EXPECT_EQ(*client_->Prefetch(sequences), 5U);
  const ReservedBlocks reserved = *client_->Reserve(sequences);
  ASSERT_EQ(reserved.size(), 6U);
  EXPECT_EQ(reserved.state(4), ReservedBlocks::State::kPresent);
  EXPECT_EQ(reserved.state(5), ReservedBlocks::State::kReserved);
}

TEST_F(ClientSequencesTest, AMaximumOfTokensIsTakenOfEachSequence) {
  const std::vector<EngineKey> keys = TestKeys(1, 4);
  PutBlocks(client_.get(), space_, keys);
  ASSERT_EQ(node_.space().tokens_per_block, 16U);
  // Pairs of max_tokens and the number of blocks taken, of 4 blocks of 16 tokens.
  const std::pair<uint64_t, size_t> cases[] = {{0, 0},  {15, 0}, {16, 1},          {63, 3},
                                               {64, 4}, {65, 4}, {~uint64_t{0}, 4}};
  for (const auto& [tokens, blocks] : cases) {
    for (const bool is_set : {false, true}) {
      const KeySequence sequence{
          .space = space_, .keys = keys, .is_set = is_set, .max_tokens = tokens};
      const auto only = std::span(&sequence, 1);
      const std::vector<OnboardedBlocks> hits = *client_->Onboard(only);
      EXPECT_EQ(hits[0].size(), blocks) << tokens;
      EXPECT_EQ(hits[0].missed(), MissReason::kNone) << "what was not asked for is not missing";
      EXPECT_EQ((*client_->Match(only))[0].blocks, blocks) << tokens;
      EXPECT_EQ(*client_->Prefetch(only), blocks) << tokens;
      // Calls that store ignore max_tokens.
      EXPECT_EQ(client_->Reserve(only)->size(), keys.size());
    }
  }
}

TEST_F(ClientSequencesTest, ASequenceThatIsNotToBeKeptGetsNoSlot) {
  const std::vector<EngineKey> keys = TestKeys(1, 2);
  const std::vector<EngineKey> others = TestKeys(2, 2);
  const std::vector<KeySequence> sequences = {{.space = space_, .keys = keys, .no_store = true},
                                              {.space = other_space_, .keys = others},
                                              {.space = space_, .keys = others, .no_store = true}};
  ReservedBlocks reserved = *client_->Reserve(sequences);
  EXPECT_TRUE(reserved.answered());
  ASSERT_EQ(reserved.size(), 6U);
  for (const size_t i : {0U, 1U, 4U, 5U}) {
    EXPECT_EQ(reserved.state(i), ReservedBlocks::State::kNoStore) << i;
    EXPECT_TRUE(reserved.slot(i).empty()) << i;
  }
  const std::vector<std::byte> bytes(node_.space().block_bytes, std::byte{7});
  const ConstPiece piece{bytes.data(), bytes.size()};
  ASSERT_TRUE(reserved.CopyIn(2, {&piece, 1}).ok());
  ASSERT_TRUE(reserved.CopyIn(3, {&piece, 1}).ok());
  EXPECT_EQ(reserved.Commit(), 2U);
  EXPECT_EQ(client_->Match(other_space_, others)->blocks, 2U);
  EXPECT_EQ(client_->Match(space_, keys)->blocks, 0U);

  // The block is loaded like any other; a put of it alone needs no call.
  const KeySequence kept{.space = other_space_, .keys = others, .no_store = true};
  EXPECT_EQ((*client_->Onboard({&kept, 1}))[0].size(), 2U);
  const uint64_t calls = client_->Stats().latencies.at("reserve").calls;
  const ReservedBlocks none = *client_->Reserve(std::span(&kept, 1));
  EXPECT_EQ(none.state(1), ReservedBlocks::State::kNoStore);
  EXPECT_TRUE(none.answered());
  EXPECT_EQ(client_->Stats().latencies.at("reserve").calls, calls);
}

TEST_F(ClientSequencesTest, AGroupHasWhatEachOfItsRanksHas) {
  const std::vector<EngineKey> keys = TestKeys(1, 4);
  PutBlocks(client_.get(), space_, keys);
  PutBlocks(client_.get(), other_space_, TestKeys(1, 2));
  const std::vector<SpaceHandle> ranks = {space_, other_space_};
  const MatchedPrefix common = *client_->MatchGroup(ranks, keys);
  EXPECT_EQ(common.blocks, 2U);
  EXPECT_EQ(common.local_blocks, 2U);
  EXPECT_EQ(common.tiers, (std::vector<Tier>{Tier::kHost, Tier::kHost}));
  EXPECT_EQ(client_->MatchGroup(std::span(ranks).first(1), keys)->blocks, 4U);
  EXPECT_EQ(client_->MatchGroup(ranks, {})->blocks, 0U);
  EXPECT_EQ(client_->MatchGroup({}, keys).status().message(),
            "0 spaces in one call; must be 1 to 256");
  const std::vector<SpaceHandle> wrong = {space_, SpaceHandle{7}};
  EXPECT_EQ(client_->MatchGroup(wrong, keys).status().code(), absl::StatusCode::kInvalidArgument);
  node_.agent().Kill();
  EXPECT_TRUE(Eventually([&] { return client_->MatchGroup(ranks, keys)->blocks == 0; }));
}

TEST_F(ClientSequencesTest, StatsSayWhatWasMovedFromWhereAndWhyNot) {
  PutBlocks(client_.get(), space_, TestKeys(1, 2));
  ASSERT_EQ(client_->Onboard(space_, TestKeys(1, 5))->size(), 2);
  const ClientStats stats = client_->Stats();
  const uint64_t bytes = client_->Onboard(space_, TestKeys(1, 1))->bytes(0).size();
  EXPECT_EQ(stats.onboarded_bytes, 2 * bytes);
  EXPECT_EQ(stats.committed_bytes, 2 * bytes);
  EXPECT_EQ(stats.onboarded_from[static_cast<size_t>(BlockSource::kHost)], 2);
  EXPECT_EQ(stats.missed_because[static_cast<size_t>(MissReason::kAbsent)], 3);
  EXPECT_EQ(stats.latencies.at("onboard").calls, 1);
  EXPECT_GT(stats.latencies.at("onboard").p50, absl::ZeroDuration());
  EXPECT_GE(stats.latencies.at("onboard").p99, stats.latencies.at("onboard").p50);
  EXPECT_FALSE(stats.latencies.contains("match"));
}

TEST_F(ClientSequencesTest, SubmittedCallsTakeSequencesToo) {
  const std::vector<EngineKey> keys = TestKeys(1, 2);
  PutBlocks(client_.get(), space_, keys);
  const std::vector<KeySequence> sequences = {{.space = space_, .keys = keys},
                                              {.space = other_space_, .keys = keys}};
  std::atomic<size_t> blocks = 0;
  ASSERT_TRUE(client_
                  ->SubmitOnboard(sequences, {},
                                  [&](std::vector<OnboardedBlocks> hits) {
                                    blocks += 10 * hits.size() + hits[0].size();
                                  })
                  .ok());
  ASSERT_TRUE(client_
                  ->SubmitMatch(sequences, {},
                                [&](const std::vector<MatchedSequence>& matched) {
                                  blocks += 1000 * matched[0].blocks;
                                })
                  .ok());
  EXPECT_TRUE(Eventually([&] { return blocks == 2022U; })) << blocks;
}

TEST_F(ClientSequencesTest, WhatIsNoSequenceIsRefusedByName) {
  EXPECT_EQ(client_->Match(std::span<const KeySequence>()).status().message(),
            "0 sequences in one call; must be 1 to 256");
  const std::vector<EngineKey> keys = TestKeys(1, 4097);
  const std::vector<KeySequence> two(2, {.space = space_, .keys = keys});
  EXPECT_EQ(client_->Onboard(two).status().message(),
            "8194 keys in one call; must be at most 8192");
  const std::vector<KeySequence> many(257, {.space = space_});
  EXPECT_EQ(client_->Prefetch(many).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client_->Reserve(std::span(two).first(1), {.parent = keys[0]}).status().message(),
            "parent must not be given with sequences, which have their own");
}

TEST_F(ClientSequencesTest, WithoutAnAgentEachSequenceIsAMiss) {
  const std::vector<EngineKey> keys = TestKeys(1, 2);
  const std::vector<KeySequence> sequences(3, {.space = space_, .keys = keys});
  node_.agent().Kill();
  const std::vector<OnboardedBlocks> hits = *client_->Onboard(sequences);
  ASSERT_EQ(hits.size(), 3U);
  for (const OnboardedBlocks& hit : hits) EXPECT_TRUE(hit.empty());
  EXPECT_EQ(client_->Match(sequences)->size(), 3U);
}

}  // namespace
}  // namespace kvtier
