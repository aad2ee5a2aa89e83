#include "core/log.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// StderrPipe is a pipe in place of stderr.
class StderrPipe {
 public:
  StderrPipe() : saved_(dup(STDERR_FILENO)) {
    EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC), 0);
    EXPECT_EQ(dup2(ends_[1], STDERR_FILENO), STDERR_FILENO);
    close(ends_[1]);
  }
  ~StderrPipe() {
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    if (ends_[0] >= 0) close(ends_[0]);
  }

  // Returns all that is in the pipe.
  std::string Read() {
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    std::string all;
    std::array<char, 4096> some;
    for (ssize_t bytes; (bytes = read(ends_[0], some.data(), some.size())) > 0;) {
      all.append(some.data(), static_cast<size_t>(bytes));
    }
    return all;
  }
  void CloseReader() {
    close(ends_[0]);
    ends_[0] = -1;
  }

 private:
  const int saved_;
  std::array<int, 2> ends_ = {-1, -1};
};

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

TEST(Log, NeverWaitsForAReaderThatStoppedAndSaysHowManyLinesWereLost) {
  StderrPipe pipe;
  for (int i = 0; i < 200; ++i) Log(LogLevel::kInfo, std::string(1000, 'x'));  // A pipe has 64 KiB.
  const std::string taken = pipe.Read();
  const auto lines = std::count(taken.begin(), taken.end(), '\n');
  EXPECT_LT(lines, 70);
  Log(LogLevel::kInfo, "the reader is back");
  const std::string after = pipe.Read();
  EXPECT_THAT(after, HasSubstr(std::to_string(200 - lines) + " lines of the log are lost"));
  EXPECT_THAT(after, HasSubstr("the reader is back"));
}

TEST(Log, OutlivesTheReaderOfStderr) {
  StderrPipe pipe;
  pipe.CloseReader();
  for (int i = 0; i < 3; ++i) Log(LogLevel::kInfo, "nobody reads this");  // SIGPIPE would end us.
}

TEST(Log, CutsALineThatAPipeMayNotTakeAtOnce) {
  StderrPipe pipe;
  Log(LogLevel::kInfo, "lines that were lost before are told beside this one");
  pipe.Read();
  Log(LogLevel::kInfo, std::string(100'000, 'y'));
  const std::string line = pipe.Read();
  EXPECT_EQ(line.size(), size_t{PIPE_BUF});
  EXPECT_EQ(line.back(), '\n');
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
