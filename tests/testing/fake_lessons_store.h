// FakeLessonsStore keeps lessons in memory, so that an agent of a test finds those of the one
// before it.
#ifndef KVTIER_TESTS_TESTING_FAKE_LESSONS_STORE_H_
#define KVTIER_TESTS_TESTING_FAKE_LESSONS_STORE_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/index/lessons_store.h"
#include "core/task.h"

namespace kvtier::testing {

class FakeLessonsStore final : public LessonsStore {
 public:
  Task<absl::StatusOr<LessonsByOrder>> Load() override {
    if (!broken.ok()) co_return broken;
    co_return kept;
  }
  Task<absl::Status> Save(LessonsByOrder lessons) override {
    ++saves;
    if (broken.ok()) kept = std::move(lessons);
    co_return broken;
  }

  LessonsByOrder kept;
  int saves = 0;        // Calls of Save(), those that failed included.
  absl::Status broken;  // Result of the calls, if it is an error.
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_FAKE_LESSONS_STORE_H_
