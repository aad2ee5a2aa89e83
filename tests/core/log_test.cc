#include "core/log.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier {
namespace {

using ::testing::MatchesRegex;

std::string Logged(LogLevel level, const std::string& text) {
  ::testing::internal::CaptureStderr();
  Log(level, text);
  return ::testing::internal::GetCapturedStderr();
}

TEST(Log, WritesLevelSecondsProgramAndText) {
  EXPECT_THAT(Logged(LogLevel::kInfo, "hello"), MatchesRegex("I [0-9]+\\.[0-9]+ [^ ]+: hello\n"));
  EXPECT_THAT(Logged(LogLevel::kWarning, "x"), MatchesRegex("W .*\n"));
  EXPECT_THAT(Logged(LogLevel::kError, "x"), MatchesRegex("E .*\n"));
}

TEST(Log, KeepsHostileTextOnOneLine) {
  const std::string line = Logged(LogLevel::kInfo, "a\nE 1.0 forged\r\x1b[31m");
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(line.find('\r'), std::string::npos);
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
}

TEST(Log, DropsLinesBelowItsLevel) {
  SetLogLevel(LogLevel::kError);
  EXPECT_EQ(Logged(LogLevel::kWarning, "quiet"), "");
  EXPECT_NE(Logged(LogLevel::kError, "loud"), "");
  SetLogLevel(LogLevel::kInfo);
  EXPECT_NE(Logged(LogLevel::kInfo, "again"), "");
}

}  // namespace
}  // namespace kvtier
