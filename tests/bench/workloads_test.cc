#include "bench/workloads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace kvtier::bench {
namespace {

Trace Generate(absl::string_view name) { return FindWorkload(name)->Generate(); }

// Returns FNV-1a over all that a replay sees, except the times.
uint64_t FingerprintOf(const Trace& trace) {
  uint64_t sum = 0xcbf29ce484222325;
  const auto add = [&](uint64_t value) { sum = (sum ^ value) * 0x100000001b3; };
  for (const TraceRequest& request : trace.requests) {
    add(request.tokens);
    add(request.hint->conversation);
    add(*request.hint->turn);
    add(static_cast<uint64_t>(request.hint->finish));
    for (const uint32_t block : request.blocks) add(block);
  }
  return sum;
}

std::vector<uint32_t> UsesOf(const Trace& trace) {
  std::vector<uint32_t> uses(trace.parents.size(), 0);
  for (const TraceRequest& request : trace.requests) {
    for (const uint32_t block : request.blocks) ++uses[block];
  }
  return uses;
}

// Returns the requests whose first block no other request has.
std::vector<TraceRequest> ScansOf(const Trace& trace) {
  const std::vector<uint32_t> uses = UsesOf(trace);
  std::vector<TraceRequest> scans;
  for (const TraceRequest& request : trace.requests) {
    if (!request.blocks.empty() && uses[request.blocks[0]] == 1) scans.push_back(request);
  }
  return scans;
}

TEST(WorkloadsTest, AreTheSameOnEveryMachine) {
  const std::map<std::string, uint64_t> expected = {
      {"chats_and_agents", 0x5f30c649f8c58cd6}, {"templates", 0x425a35a246fbf667},
      {"shared_stems", 0xb14393af27283dde},     {"scans_among_chats", 0x87dd3e5268dc4fe7},
      {"phase_change", 0x01cd09f15ba94371},     {"flood", 0x957a9d2bea0bbdf2}};
  for (const Workload& workload : Workloads()) {
    const Trace trace = workload.Generate();
    EXPECT_EQ(trace.name, workload.name);
    EXPECT_EQ(FingerprintOf(trace), expected.at(workload.name)) << workload.name;
  }
}

TEST(WorkloadsTest, AreNotLookedUpByWrongNames) { EXPECT_EQ(FindWorkload("chat"), nullptr); }

TEST(WorkloadsTest, TurnsOfASessionContinueOneAnother) {
  for (const Workload& workload : Workloads()) {
    const Trace trace = workload.Generate();
    std::map<uint32_t, const TraceRequest*> last;
    for (const TraceRequest& request : trace.requests) {
      const TraceRequest*& before = last[request.hint->conversation];
      ASSERT_EQ(request.hint->turn, before == nullptr ? 0 : *before->hint->turn + 1);
      if (before != nullptr) {
        ASSERT_GE(request.blocks.size(), before->blocks.size());
        ASSERT_TRUE(std::ranges::equal(before->blocks,
                                       std::span(request.blocks).first(before->blocks.size())));
      }
      before = &request;
    }
  }
}

TEST(WorkloadsTest, TemplatesHaveManyShortBranches) {
  const Trace trace = Generate("templates");
  const std::vector<uint32_t> uses = UsesOf(trace);
  std::vector<size_t> branches;
  for (const TraceRequest& request : trace.requests) {
    EXPECT_EQ(request.hint->turn, 0);
    branches.push_back(static_cast<size_t>(
        std::ranges::count_if(request.blocks, [&](uint32_t block) { return uses[block] == 1; })));
  }
  std::ranges::sort(branches);
  EXPECT_LE(branches[branches.size() / 2], 2);
  EXPECT_LE(branches.back(), 10);
  EXPECT_GT(std::ranges::count_if(uses, [](uint32_t count) { return count > 10; }), 500);
}

TEST(WorkloadsTest, SharedStemsAreLongAndFew) {
  const Trace trace = Generate("shared_stems");
  EXPECT_EQ(std::ranges::count(trace.parents, kNoBlock), 4);
  const std::vector<uint32_t> uses = UsesOf(trace);
  for (const TraceRequest& request : trace.requests) {
    // The shortest stem has 29 blocks, and each stem is in hundreds of requests.
    ASSERT_GT(request.blocks.size(), 29);
    ASSERT_GT(uses[request.blocks[28]], 500);
  }
}

TEST(WorkloadsTest, ScansComeAmongChatsAllTheTime) {
  const Trace trace = Generate("scans_among_chats");
  const std::vector<TraceRequest> scans = ScansOf(trace);
  size_t scanned = 0;
  std::vector<int> by_quarter(4, 0);
  for (const TraceRequest& scan : scans) {
    scanned += scan.blocks.size();
    ++by_quarter[std::min<size_t>(static_cast<size_t>(scan.at / absl::Minutes(30)), 3)];
  }
  EXPECT_GT(scanned, trace.parents.size() / 4);
  EXPECT_LT(scanned, trace.parents.size() * 3 / 4);
  for (const int quarter : by_quarter) EXPECT_GT(quarter, 100);
}

TEST(WorkloadsTest, TheFloodComesInTheTenthInTheMiddle) {
  const Trace trace = Generate("flood");
  const std::vector<TraceRequest> scans = ScansOf(trace);
  ASSERT_GT(scans.size(), 700);
  EXPECT_GT(scans.front().at, absl::Minutes(53));
  EXPECT_LT(scans.back().at, absl::Minutes(67));
}

TEST(WorkloadsTest, ThePhaseChangesFromChatsToAgentsInTheMiddle) {
  const Trace trace = Generate("phase_change");
  int chats = 0;
  int late_chats = 0;
  for (const TraceRequest& request : trace.requests) {
    if (request.hint->finish == FinishReason::kToolCalls) {
      EXPECT_GT(request.at, absl::Minutes(59));
    } else if (request.hint->turn == 0) {
      ++(request.at < absl::Minutes(61) ? chats : late_chats);
    }
  }
  EXPECT_GT(chats, 2900);
  // An agent that stops after its first turn looks like a chat.
  EXPECT_LE(late_chats, 3);
}

}  // namespace
}  // namespace kvtier::bench
