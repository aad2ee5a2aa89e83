#include "agent/index/lessons_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/summed_bytes.h"
#include "core/task_scope.h"
#include "tests/testing/sim_executor.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;
using testing::InlineByteThreads;
using testing::SimExecutor;
using testing::SimTime;

class LessonsFileTest : public ::testing::Test {
 protected:
  ~LessonsFileTest() override {
    std::error_code ignored;  // A directory left in /tmp fails no test.
    std::filesystem::remove_all(directory_, ignored);
  }
  static std::string MakeDirectory() {
    char pattern[] = "/tmp/kvtier-lessons-XXXXXX";
    KVT_CHECK(mkdtemp(pattern) != nullptr);
    return pattern;
  }
  absl::StatusOr<LessonsByOrder> Load() {
    absl::StatusOr<LessonsByOrder> loaded;
    scope_.Spawn([](LessonsFile* file, absl::StatusOr<LessonsByOrder>* to) -> Task<void> {
      *to = co_await file->Load();
    }(&file_, &loaded));
    return loaded;
  }
  absl::Status Save(LessonsByOrder lessons) {
    absl::Status saved;
    scope_.Spawn([](LessonsFile* file, LessonsByOrder what, absl::Status* to) -> Task<void> {
      *to = co_await file->Save(std::move(what));
    }(&file_, std::move(lessons), &saved));
    return saved;
  }
  std::string path() const { return directory_ + "/" + kLessonsFileName; }
  std::string Content() const {
    std::ostringstream text;
    text << std::ifstream(path()).rdbuf();
    return text.str();
  }
  void Write(const std::string& text) const { std::ofstream(path()) << text; }

  const LessonsByOrder lessons_ = {{"disk/01", std::string("\0\n\xff", 3)}, {"host/default", ""}};
  const std::string directory_ = MakeDirectory();
  SimTime time_;
  SimExecutor executor_{&time_};
  InlineByteThreads byte_threads_;
  TaskScope scope_{&executor_};
  LessonsFile file_{&byte_threads_, directory_};
};

TEST_F(LessonsFileTest, WhatIsSavedIsLoadedAndNothingElseIsLeft) {
  EXPECT_EQ(Load().value(), LessonsByOrder()) << "no file yet";
  ASSERT_EQ(Save({{"host/older", "x"}}), absl::OkStatus());
  ASSERT_EQ(Save(lessons_), absl::OkStatus());
  EXPECT_EQ(Load().value(), lessons_);
  std::filesystem::remove(path());
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

// A crash in the middle of a write leaves the new file unfinished under its other name.
TEST_F(LessonsFileTest, AnUnfinishedWriteIsNotSeenAndInNobodysWay) {
  ASSERT_EQ(Save(lessons_), absl::OkStatus());
  std::ofstream(path() + ".new") << "half of";
  EXPECT_EQ(Load().value(), lessons_);
  EXPECT_EQ(Save({}), absl::OkStatus());
  EXPECT_EQ(Load().value(), LessonsByOrder());
}

TEST_F(LessonsFileTest, EveryTruncationAndEveryFlippedByteIsRefused) {
  ASSERT_EQ(Save(lessons_), absl::OkStatus());
  const std::string content = Content();
  for (size_t i = 0; i < content.size(); ++i) {
    Write(content.substr(0, i));
    EXPECT_TRUE(absl::IsDataLoss(Load().status())) << i;
    std::string flipped = content;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    Write(flipped);
    EXPECT_TRUE(absl::IsDataLoss(Load().status())) << i;
  }
  EXPECT_THAT(std::string(Load().status().message()), HasSubstr(path()));
  EXPECT_EQ(Save(lessons_), absl::OkStatus());
  EXPECT_EQ(Load().value(), lessons_);
}

TEST_F(LessonsFileTest, AnotherVersionIsRefused) {
  ASSERT_EQ(Save({}), absl::OkStatus());
  std::string content = Content();
  SummedWriter next;
  next.PutBytes(content.substr(0, 8));
  next.Put(uint32_t{2});
  next.PutBytes("whatever it has");
  Write(std::move(next).End());
  const absl::Status refused = Load().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has version 2"));
}

TEST_F(LessonsFileTest, AnotherFileWithARightSumIsRefused) {
  SummedWriter other;
  other.Put(uint64_t{1});
  Write(std::move(other).End());
  EXPECT_TRUE(absl::IsDataLoss(Load().status()));
}

TEST_F(LessonsFileTest, WhatCannotBeReadOrWrittenIsAnErrorThatNamesTheFile) {
  std::filesystem::create_directory(path());
  for (const absl::Status& status : {Load().status(), Save(lessons_)}) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path()));
  }
  std::filesystem::remove_all(directory_);
  EXPECT_EQ(Load().value(), LessonsByOrder());
  EXPECT_TRUE(absl::IsUnavailable(Save(lessons_)));
}

}  // namespace
}  // namespace kvtier
