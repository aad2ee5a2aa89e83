#include "core/seldom_log.h"

#include <string>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Written(SeldomLog* log, absl::Time now) {
  ::testing::internal::CaptureStderr();
  log->Write(LogLevel::kWarning, "refused", now);
  return ::testing::internal::GetCapturedStderr();
}

TEST(SeldomLogTest, ManyRefusalsASecondAreOneLineThatCountsThem) {
  SeldomLog log;
  const absl::Time start = absl::UnixEpoch();
  EXPECT_THAT(Written(&log, start), AllOf(HasSubstr("refused"), Not(HasSubstr("left out"))));
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(Written(&log, start + kSeldom - absl::Nanoseconds(1)), "");
  }
  EXPECT_THAT(Written(&log, start + kSeldom), HasSubstr("refused (1000 such lines left out)"));
  EXPECT_THAT(Written(&log, start + 2 * kSeldom), Not(HasSubstr("left out")));
}

}  // namespace
}  // namespace kvtier
