#include "tier_disk/io/summed_file.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"
#include "tier_disk/io/durable_file.h"

namespace kvtier {

absl::StatusOr<std::string> ReadSummedFile(const std::string& directory,
                                           const SummedFileForm& form) {
  const std::string path = absl::StrCat(directory, "/", form.name);
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  // If the size is unknown, ReadFileStart() reports why.
  const size_t limit = error ? 1 : std::min<uint64_t>(size, form.max_bytes) + 1;
  KVT_ASSIGN_OR_RETURN(const std::optional<std::vector<std::byte>> bytes,
                       ReadFileStart(path, limit));
  if (!bytes.has_value()) return std::string();
  if (bytes->empty()) return absl::DataLossError(absl::StrCat(path, " is damaged: it is empty"));
  if (bytes->size() > form.max_bytes) {
    return absl::DataLossError(
        absl::StrCat(path, " is damaged: it has more than ", form.max_bytes, " bytes"));
  }
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

absl::StatusOr<OpenedSummedFile> OpenSummedFile(const std::string& directory,
                                                const SummedFileForm& form,
                                                absl::string_view bytes) {
  const std::string path = absl::StrCat(directory, "/", form.name);
  std::optional<SummedReader> in = SummedReader::Open(bytes);
  if (!in.has_value()) {
    return absl::DataLossError(absl::StrCat(path, " is damaged: it fails its checksum"));
  }
  if (in->Take<uint64_t>() != form.magic) {
    return absl::DataLossError(absl::StrCat(path, " is no file of ", form.holds));
  }
  const auto version = in->Take<uint32_t>();
  if (!version.has_value() || *version < form.min_version || *version > form.version) {
    return absl::FailedPreconditionError(absl::StrCat(path, " has version ", version.value_or(0),
                                                      ", this program's is ", form.version));
  }
  return OpenedSummedFile{.in = *in, .version = *version};
}

SummedWriter BeginSummedFile(const SummedFileForm& form) {
  SummedWriter out;
  out.Put(form.magic);
  out.Put(form.version);
  return out;
}

absl::Status ReplaceSummedFile(const std::string& directory, const SummedFileForm& form,
                               SummedWriter content) {
  const std::string bytes = std::move(content).End();
  return ReplaceFile(directory, form.name, std::as_bytes(std::span(bytes)));
}

}  // namespace kvtier
