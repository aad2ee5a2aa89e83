// LessonsFile is a LessonsStore in one small file of the node, which may be removed at any time:
//
//   magic:8 version:4 orders:4, of each: name's length:2 name | lessons' length:4 lessons
//   the sum of all that (SummedBytes)
#ifndef KVTIER_AGENT_INDEX_LESSONS_FILE_H_
#define KVTIER_AGENT_INDEX_LESSONS_FILE_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/index/lessons_store.h"
#include "core/byte_threads.h"
#include "core/task.h"

namespace kvtier {

inline constexpr char kLessonsFileName[] = "eviction_lessons";

class LessonsFile final : public LessonsStore {
 public:
  // Takes the threads that do all reads and writes, which it does not own. Makes no directory.
  LessonsFile(ByteThreads* byte_threads, std::string directory)
      : byte_threads_(byte_threads), directory_(std::move(directory)) {}

  // A file that is not there is an empty one. Errors of both name the file.
  Task<absl::StatusOr<LessonsByOrder>> Load() override;
  Task<absl::Status> Save(LessonsByOrder lessons) override;

 private:
  // Read() and Write() block the calling thread.
  absl::StatusOr<LessonsByOrder> Read() const;
  absl::Status Write(const LessonsByOrder& lessons) const;
  std::string path() const { return directory_ + "/" + kLessonsFileName; }

  ByteThreads* const byte_threads_;
  const std::string directory_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_LESSONS_FILE_H_
