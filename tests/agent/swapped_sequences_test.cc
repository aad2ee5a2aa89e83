// Tests the limits of swapped sequences on the table alone, without an agent.
#include "agent/sessions/swapped_sequences.h"

#include <gtest/gtest.h>

#include <vector>

#include "agent/limits.h"

namespace kvtier {
namespace {

constexpr uint64_t kNoQuota = ~uint64_t{0};

class SwappedSequencesTest : public ::testing::Test {
 protected:
  ~SwappedSequencesTest() override { table_.Audit(); }
  absl::StatusOr<SwapId> Begin(uint64_t session, uint64_t blocks, uint64_t quota = kNoQuota) {
    return table_.Begin({.session = SessionId{session},
                         .domain = DomainId{1},
                         .block_length = 100,
                         .blocks = blocks,
                         .slot_bytes = 4096},
                        quota);
  }
  SwappedSequences table_;
};

TEST_F(SwappedSequencesTest, ASessionHasItsLimitOfSequences) {
  SwapId last{};
  for (size_t i = 0; i < kMaxSwappedPerSession; ++i) last = *Begin(1, 1);
  EXPECT_EQ(Begin(1, 1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Begin(2, 1).status(), absl::OkStatus());
  table_.GiveUp(last);
  EXPECT_EQ(Begin(1, 1).status(), absl::OkStatus());
}

TEST_F(SwappedSequencesTest, AllSessionsTogetherHaveTheirs) {
  for (size_t i = 0; i < kMaxSwappedSequences; ++i) {
    ASSERT_EQ(Begin(i / kMaxSwappedPerSession, 1).status(), absl::OkStatus());
  }
  EXPECT_EQ(Begin(77, 1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(table_.size(), kMaxSwappedSequences);
}

TEST_F(SwappedSequencesTest, BlocksHaveALimit) {
  EXPECT_EQ(Begin(1, kMaxSwappedBlocks + 1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Begin(1, kMaxSwappedBlocks).status(), absl::OkStatus());
  EXPECT_EQ(Begin(2, 1).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(SwappedSequencesTest, BytesHaveAQuota) {
  EXPECT_EQ(Begin(1, 3, 4 * 4096 - 1).status(), absl::OkStatus());
  EXPECT_EQ(Begin(1, 1, 4 * 4096 - 1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Begin(1, 1, 4 * 4096).status(), absl::OkStatus());
  EXPECT_EQ(Begin(1, 1, 0).status().code(), absl::StatusCode::kResourceExhausted)
      << "a quota that shrinks takes nothing away";
  EXPECT_EQ(table_.UseOf(DomainId{1}),
            (SwappedSequences::Use{.sequences = 2, .blocks = 4, .bytes = 4 * 4096}));
}

TEST_F(SwappedSequencesTest, WhatMovesWhenItsSessionEndsGoesWhenItHasMoved) {
  const SwapId id = *Begin(1, 1);
  table_.EndSession(SessionId{1});
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_EQ(table_.UseOf(DomainId{1}).bytes, 4096u);
  EXPECT_EQ(table_.BeginReturn(SessionId{1}, id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(table_.Complete(id, std::vector<SwappedBlock>(1)));
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(table_.UseOf(DomainId{1}), SwappedSequences::Use());
  EXPECT_EQ(table_.CountsOf(DomainId{1}).dropped, 1u);
}

}  // namespace
}  // namespace kvtier
