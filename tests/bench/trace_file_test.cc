#include "bench/trace_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvtier::bench {
namespace {

// Writes `text` to a file and reads it as a trace.
absl::StatusOr<Trace> Read(const std::string& text, PartialBlocks partial) {
  const std::string path = ::testing::TempDir() + "/small_trace.jsonl";
  std::ofstream(path) << text;
  return ReadTrace(path, partial);
}

constexpr char kRequests[] =
    R"({"timestamp": 0, "input_length": 1100, "hash_ids": [7, 8, 9]}
{"timestamp": 500, "input_length": 1024, "hash_ids": [7, 8]}
)";

TEST(TraceFileTest, APartialLastBlockIsLeftOutOrKept) {
  const auto without = Read(kRequests, PartialBlocks::kLeaveOut);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->name, "small_trace");
  EXPECT_EQ(without->parents.size(), 2);
  EXPECT_EQ(without->requests[0].blocks, (std::vector<uint32_t>{0, 1}));
  const auto with = Read(kRequests, PartialBlocks::kKeep);
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_EQ(with->parents.size(), 3);
  EXPECT_EQ(with->requests[0].blocks, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(with->requests[1].blocks, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(with->requests[0].tokens, 1100);
}

TEST(TraceFileTest, RequestsWithoutSessionsHaveNoHints) {
  const auto trace = Read(kRequests, PartialBlocks::kKeep);
  ASSERT_TRUE(trace.ok()) << trace.status();
  for (const TraceRequest& request : trace->requests) EXPECT_EQ(request.hint, std::nullopt);
}

// Blocks of 256 tokens: two make one.
constexpr char kSessions[] =
    R"({"id": "a", "block_size": 256, "requests": [)"
    R"({"t": 0, "model": "m", "in": 600, "hash_ids": [0, 1], "stop": "tool_use"},)"
    R"({"t": 1, "type": "subagent", "requests": [)"
    R"({"t": 0, "model": "m", "in": 512, "hash_ids": [0, 1], "stop": "max_tokens"}]},)"
    R"({"t": 5, "model": "m", "in": 1100, "hash_ids": [0, 1, 2, 3], "stop": "end_turn"}]}
{"id": "b", "block_size": 256, "requests": [)"
    R"({"t": 0, "model": "m", "in": 512, "hash_ids": [0, 1], "stop": "refusal"},)"
    R"({"t": 1, "model": "m", "in": 512, "hash_ids": [0, 1]}]}
)";

TEST(TraceFileTest, RequestsOfSessionsHaveHints) {
  const auto trace = Read(kSessions, PartialBlocks::kKeep);
  ASSERT_TRUE(trace.ok()) << trace.status();
  std::vector<ReuseHint> hints;
  for (const TraceRequest& request : trace->requests) hints.push_back(*request.hint);
  std::ranges::sort(hints, {},
                    [](const ReuseHint& hint) { return std::pair(hint.conversation, hint.turn); });
  const std::vector<ReuseHint> expected = {
      {.conversation = 1, .turn = 0, .finish = FinishReason::kToolCalls},
      {.conversation = 1, .turn = 1, .finish = FinishReason::kStop},
      {.conversation = 2, .turn = 0, .finish = FinishReason::kLength},
      {.conversation = 3, .turn = 0, .finish = FinishReason::kUnknown},
      {.conversation = 3, .turn = 1, .finish = FinishReason::kUnknown}};
  EXPECT_EQ(hints, expected);
}

TEST(TraceFileTest, ASubAgentSharesTheBlocksOfItsSession) {
  const auto trace = Read(kSessions, PartialBlocks::kKeep);
  ASSERT_TRUE(trace.ok()) << trace.status();
  // Two blocks of the first session and one of the second.
  EXPECT_EQ(trace->parents.size(), 3);
}

TEST(TraceFileTest, ALineOfNeitherSchemaIsNamed) {
  const auto trace = Read("{\"timestamp\": 0}\n", PartialBlocks::kKeep);
  EXPECT_EQ(trace.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(trace.status().message().find("line 1"), absl::string_view::npos);
}

}  // namespace
}  // namespace kvtier::bench
