#include "agent/index/lessons_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/status_macros.h"
#include "core/summed_bytes.h"
#include "tier_disk/io/durable_file.h"

namespace kvtier {
namespace {

constexpr uint64_t kLessonsMagic = 0x6e6f7373656c766b;  // The bytes "kvlesson".
constexpr uint32_t kLessonsFileVersion = 1;

std::string Encode(const LessonsByOrder& lessons) {
  SummedWriter out;
  out.Put(kLessonsMagic);
  out.Put(kLessonsFileVersion);
  out.Put(static_cast<uint32_t>(lessons.size()));
  for (const auto& [name, bytes] : lessons) {
    out.Put(static_cast<uint16_t>(name.size()));
    out.PutBytes(name);
    out.Put(static_cast<uint32_t>(bytes.size()));
    out.PutBytes(bytes);
  }
  return std::move(out).End();
}

// Takes a text behind its length, which is a T.
template <typename T>
std::optional<std::string> TakeText(SummedReader* from) {
  const std::optional<T> length = from->Take<T>();
  if (!length.has_value()) return std::nullopt;
  const auto text = from->TakeBytes(*length);
  if (!text.has_value()) return std::nullopt;
  return std::string(*text);
}

// Takes what comes behind the version; nullopt: it contradicts itself.
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

// Errors: LessonsStore::Load()'s, naming `path`.
absl::StatusOr<LessonsByOrder> Decode(const std::string& path, absl::string_view bytes) {
  std::optional<SummedReader> in = SummedReader::Open(bytes);
  if (!in.has_value()) return absl::DataLossError(absl::StrCat(path, " is damaged"));
  if (in->Take<uint64_t>() != kLessonsMagic) {
    return absl::DataLossError(absl::StrCat(path, " is no file of lessons"));
  }
  const auto version = in->Take<uint32_t>();
  if (version != kLessonsFileVersion) {
    return absl::FailedPreconditionError(absl::StrCat(path, " has version ", version.value_or(0),
                                                      ", this program's is ", kLessonsFileVersion));
  }
  std::optional<LessonsByOrder> lessons = TakeOrders(&*in);
  if (!lessons.has_value()) {
    return absl::DataLossError(absl::StrCat(path, " contradicts itself"));
  }
  return *std::move(lessons);
}

}  // namespace

absl::StatusOr<LessonsByOrder> LessonsFile::Read() const {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path(), error);
  // Where its size is not known, the read says why.
  const size_t limit = error ? 1 : std::min<uint64_t>(size, kMaxLessonsBytes) + 1;
  KVT_ASSIGN_OR_RETURN(const std::optional<std::vector<std::byte>> bytes,
                       ReadFileStart(path(), limit));
  if (!bytes.has_value()) return LessonsByOrder();
  if (bytes->size() > kMaxLessonsBytes) {
    return absl::DataLossError(absl::StrCat(path(), " has more than ", kMaxLessonsBytes, " bytes"));
  }
  return Decode(path(), {reinterpret_cast<const char*>(bytes->data()), bytes->size()});
}

absl::Status LessonsFile::Write(const LessonsByOrder& lessons) const {
  const std::string bytes = Encode(lessons);
  return ReplaceFile(directory_, kLessonsFileName, std::as_bytes(std::span(bytes)));
}

Task<absl::StatusOr<LessonsByOrder>> LessonsFile::Load() {
  absl::StatusOr<LessonsByOrder> loaded;
  ByteWorkers::Work read = [this, &loaded] { loaded = Read(); };
  co_await workers_->Run(std::move(read));
  co_return loaded;
}

Task<absl::Status> LessonsFile::Save(LessonsByOrder lessons) {
  absl::Status saved;
  ByteWorkers::Work write = [this, &lessons, &saved] { saved = Write(lessons); };
  co_await workers_->Run(std::move(write));
  co_return saved;
}

}  // namespace kvtier
