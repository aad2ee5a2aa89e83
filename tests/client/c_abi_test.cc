// Tests libkvtier_client.so with C programs. Each program runs in a process of its own, which links
// nothing of ours but that library.
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_node.h"

namespace kvtier {
namespace {

int RunProgram(const std::string& program, const std::string& arguments) {
  const int status = std::system(absl::StrCat(program, " ", arguments).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(CAbiTest, ACProgramPutsAndGetsBlocks) {
  testing::FakeNode node;
  node.agent().Start();
  EXPECT_EQ(RunProgram(KVTIER_C_CLIENT, node.socket_dir()), 0);
}

TEST(CAbiTest, WithoutAnAgentACProgramSeesMisses) {
  testing::FakeNode node;
  EXPECT_EQ(RunProgram(KVTIER_C_CLIENT, node.socket_dir() + " absent"), 0);
}

TEST(CAbiTest, ACProgramAsksAboutRunsAndSetsInOneCall) {
  testing::FakeNode node;
  node.agent().Start();
  EXPECT_EQ(RunProgram(KVTIER_C_SEQUENCES, node.socket_dir()), 0);
}

TEST(CAbiTest, WithoutAnAgentACProgramsSequencesAreMisses) {
  testing::FakeNode node;
  EXPECT_EQ(RunProgram(KVTIER_C_SEQUENCES, node.socket_dir() + " absent"), 0);
}

TEST(CAbiTest, ACProgramPollsPartsOfAnOnboardAsTheyCome) {
  testing::FakeNode node;
  node.agent().Start();
  EXPECT_EQ(RunProgram(KVTIER_C_PARTS, node.socket_dir()), 0);
  EXPECT_TRUE(testing::Eventually([&] { return node.agent().Counts().leases == 0; }));
}

TEST(CAbiTest, WithoutAnAgentACProgramsPartsAreMisses) {
  testing::FakeNode node;
  EXPECT_EQ(RunProgram(KVTIER_C_PARTS, node.socket_dir() + " absent"), 0);
}

TEST(CAbiTest, ACProgramOffloadsAndOnboardsItsOwnTensors) {
  testing::FakeNode node;
  node.agent().Start();
  EXPECT_EQ(RunProgram(KVTIER_C_LANES, node.socket_dir()), 0);
  EXPECT_TRUE(testing::Eventually([&] { return node.agent().Counts().leases == 0; }));
}

TEST(CAbiTest, WithoutAnAgentACProgramsLaneJobsFail) {
  testing::FakeNode node;
  EXPECT_EQ(RunProgram(KVTIER_C_LANES, node.socket_dir() + " absent"), 0);
}

TEST(CAbiTest, ACProgramReadsWhatWasMovedAndLogs) {
  testing::FakeNode node;
  node.agent().Start();
  EXPECT_EQ(RunProgram(KVTIER_C_TRAFFIC, node.socket_dir()), 0);
}

TEST(CAbiTest, TheLibraryExportsItsFunctionsAndNothingElse) {
  FILE* const nm = popen("nm -D --defined-only " KVTIER_C_LIBRARY, "r");
  ASSERT_NE(nm, nullptr);
  std::set<std::string> others;
  size_t ours = 0;
  char line[4096];
  while (fgets(line, sizeof(line), nm) != nullptr) {
    std::string name = line;
    name = name.substr(name.rfind(' ') + 1);
    name = name.substr(0, name.find_first_of("@\n"));
    if (name.starts_with("kvtier_")) {
      ++ours;
    } else if (name != "KVTIER_1") {  // The version's own symbol.
      others.insert(name);
    }
  }
  EXPECT_EQ(pclose(nm), 0);
  EXPECT_GE(ours, 25U);
  EXPECT_TRUE(others.empty()) << others.size() << " more, such as " << *others.begin();
}

}  // namespace
}  // namespace kvtier
