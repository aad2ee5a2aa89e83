#include "agent/index/lessons_file.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/status_macros.h"
#include "core/summed_bytes.h"
#include "tier_disk/io/summed_file.h"

namespace kvtier {
namespace {

constexpr SummedFileForm kForm = {.name = kLessonsFileName,
                                  .holds = "lessons",
                                  .magic = 0x6e6f7373656c766b,  // The bytes "kvlesson".
                                  .version = 1,
                                  .max_bytes = kMaxLessonsBytes};

SummedWriter Encode(const LessonsByOrder& lessons) {
  SummedWriter out = BeginSummedFile(kForm);
  out.Put(static_cast<uint32_t>(lessons.size()));
  for (const auto& [name, bytes] : lessons) {
    out.Put(static_cast<uint16_t>(name.size()));
    out.PutBytes(name);
    out.Put(static_cast<uint32_t>(bytes.size()));
    out.PutBytes(bytes);
  }
  return out;
}

// Takes a length, which is a T, and a text of that length.
template <typename T>
std::optional<std::string> TakeText(SummedReader* from) {
  const std::optional<T> length = from->Take<T>();
  if (!length.has_value()) return std::nullopt;
  const auto text = from->TakeBytes(*length);
  if (!text.has_value()) return std::nullopt;
  return std::string(*text);
}

// Takes the fields after the version; nullopt: they contradict themselves.
std::optional<LessonsByOrder> TakeOrders(SummedReader* from) {
  const auto orders = from->Take<uint32_t>();
  LessonsByOrder lessons;
  for (uint32_t i = 0; i < orders.value_or(0); ++i) {
    std::optional<std::string> name = TakeText<uint16_t>(from);
    std::optional<std::string> bytes = TakeText<uint32_t>(from);
    if (!name.has_value() || !bytes.has_value()) return std::nullopt;
    lessons.insert_or_assign(*std::move(name), *std::move(bytes));
  }
  if (!orders.has_value() || !from->at_end()) return std::nullopt;
  return lessons;
}

}  // namespace

absl::StatusOr<LessonsByOrder> LessonsFile::Read() const {
  KVT_ASSIGN_OR_RETURN(const std::string bytes, ReadSummedFile(directory_, kForm));
  if (bytes.empty()) return LessonsByOrder();
  KVT_ASSIGN_OR_RETURN(OpenedSummedFile file, OpenSummedFile(directory_, kForm, bytes));
  std::optional<LessonsByOrder> lessons = TakeOrders(&file.in);
  if (!lessons.has_value()) {
    return absl::DataLossError(absl::StrCat(path(), " is damaged: its parts do not fit together"));
  }
  return *std::move(lessons);
}

absl::Status LessonsFile::Write(const LessonsByOrder& lessons) const {
  return ReplaceSummedFile(directory_, kForm, Encode(lessons));
}

Task<absl::StatusOr<LessonsByOrder>> LessonsFile::Load() {
  absl::StatusOr<LessonsByOrder> loaded;
  ByteThreads::Work read = [this, &loaded] { loaded = Read(); };
  co_await byte_threads_->Run(std::move(read));
  co_return loaded;
}

Task<absl::Status> LessonsFile::Save(LessonsByOrder lessons) {
  absl::Status saved;
  ByteThreads::Work write = [this, &lessons, &saved] { saved = Write(lessons); };
  co_await byte_threads_->Run(std::move(write));
  co_return saved;
}

}  // namespace kvtier
