// Tests the exit codes of `pins drop`, `prefix drop` and `lookup` where nothing is there, or not
// all is done, against scripted agents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/command.h"
#include "tests/testing/fake_admin.h"

namespace kvtier::cli {
namespace {

using ::testing::HasSubstr;

class ExitCodesTest : public ::testing::Test {
 protected:
  static Outcome Ask(std::vector<std::string> words, const std::vector<std::string>& agents) {
    for (const std::string& agent : agents) words.insert(words.end(), {"--agent", agent});
    return RunCommand(words);
  }
  static Outcome DropPin(const std::vector<std::string>& agents) {
    return Ask({"pins", "drop", "--tenant", "acme", "--pin", "99"}, agents);
  }
  static Outcome DropPrefix(const std::vector<std::string>& agents) {
    return Ask({"prefix", "drop", "--tenant", "acme", "--space-digest", std::string(64, '1'),
                "--engine-key", "0011223344556677", "--yes"},
               agents);
  }

  testing::FakeAgentAdmin agent_;
  testing::FakeAgentAdmin second_;
  testing::AdminServer server_{&agent_};
  testing::AdminServer second_server_{&second_};
  const std::vector<std::string> one_ = {server_.address()};
  const std::vector<std::string> both_ = {server_.address(), second_server_.address()};
};

TEST_F(ExitCodesTest, APinThatNobodyHasIsNotFound) {
  EXPECT_EQ(DropPin(one_).code, ExitCode::kNotFound);
  EXPECT_THAT(DropPin(one_).out, HasSubstr("there was none"));
  EXPECT_EQ(DropPin(both_).code, ExitCode::kNotFound);
  agent_.ended.set_ended_prefixes(1);
  EXPECT_EQ(DropPin(both_).code, ExitCode::kOk) << "one of two had it";
  second_.status = {grpc::StatusCode::NOT_FOUND, "tenant: 'acme' is not configured"};
  EXPECT_EQ(DropPin(both_).code, ExitCode::kOk);
  second_.status = {grpc::StatusCode::INTERNAL, "broken"};
  EXPECT_EQ(DropPin(both_).code, ExitCode::kFailed);
}

TEST_F(ExitCodesTest, APrefixThatNobodyHasIsNotFound) {
  EXPECT_EQ(DropPrefix(one_).code, ExitCode::kNotFound);
  EXPECT_THAT(DropPrefix(one_).out, HasSubstr("there was none"));
  second_.dropped.set_deleted_blocks(3);
  EXPECT_EQ(DropPrefix(both_).code, ExitCode::kOk);
}

TEST_F(ExitCodesTest, APrefixOfWhichBlocksAreLeftIsToBeDroppedAgain) {
  agent_.dropped.set_deleted_blocks(3);
  agent_.dropped.set_held_blocks(1);
  EXPECT_EQ(DropPrefix(one_).code, ExitCode::kFailed);
  agent_.dropped.set_held_blocks(0);
  agent_.dropped.set_more(true);
  EXPECT_EQ(DropPrefix(one_).code, ExitCode::kFailed);
  agent_.dropped.set_more(false);
  EXPECT_EQ(DropPrefix(one_).code, ExitCode::kOk);
}

// The coordinator knows no tenant's secret, so it cannot find a block by its key.
TEST_F(ExitCodesTest, ALookupWhoseBlockNoAgentCouldNameFails) {
  testing::FakeCoordinatorAdmin coordinator;
  testing::AdminServer coordinator_server(&coordinator);
  const Outcome outcome = Ask({"lookup", "--coordinator", coordinator_server.address(),
                               "--block-key", std::string(32, '2')},
                              one_);
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.out, HasSubstr("by names that only an agent of their tenant makes"));
}

}  // namespace
}  // namespace kvtier::cli
