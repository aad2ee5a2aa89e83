#include "core/flag_files.h"

#include <errno.h>
#include <string.h>

#include <fstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// Reader collects the words of a command line and of the files that it names.
class Reader {
 public:
  absl::Status Add(const std::string& word) {
    absl::string_view name = word;
    if (!absl::ConsumePrefix(&name, "--")) absl::ConsumePrefix(&name, "-");
    const bool is_flag = name.size() < word.size();
    if (names_files_) {
      names_files_ = false;
      return AddFiles(word);
    }
    if (is_flag && absl::ConsumePrefix(&name, "flagfile=")) return AddFiles(name);
    names_files_ = is_flag && name == "flagfile";
    if (!names_files_) words_.push_back(word);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> TakeWords() {
    if (names_files_)
      return absl::InvalidArgumentError(
          "--flagfile is the last word; it must be followed by a file");
    return std::move(words_);
  }

 private:
  absl::Status AddFiles(absl::string_view files) {
    for (const absl::string_view file : absl::StrSplit(files, ',', absl::SkipEmpty())) {
      KVT_RETURN_IF_ERROR(AddFile(std::string(file)));
    }
    return absl::OkStatus();
  }

  absl::Status AddFile(const std::string& file) {
    if (++files_ > kMaxFlagFiles) {
      return absl::InvalidArgumentError(
          absl::StrCat("--flagfile=", file, ": files of flags must be at most ", kMaxFlagFiles));
    }
    std::ifstream lines(file);
    if (!lines) {
      return absl::InvalidArgumentError(absl::StrCat("--flagfile=", file, ": ", strerror(errno)));
    }
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      const std::string word(absl::StripAsciiWhitespace(line));
      if (word.empty() || word[0] == '#') continue;
      if (word[0] != '-') {
        return absl::InvalidArgumentError(absl::StrCat(
            file, ":", number, ": '", word, "' is no flag; a line has one, as --name=value"));
      }
      KVT_RETURN_IF_ERROR(Add(word));
    }
    return absl::OkStatus();
  }

  std::vector<std::string> words_;
  int files_ = 0;
  bool names_files_ = false;  // Whether the next word names files.
};

}  // namespace

absl::StatusOr<std::vector<std::string>> WithFlagFiles(const std::vector<std::string>& words) {
  Reader reader;
  for (const std::string& word : words) KVT_RETURN_IF_ERROR(reader.Add(word));
  return reader.TakeWords();
}

}  // namespace kvtier
