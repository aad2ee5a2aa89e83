#include "core/free_memory.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace kvtier {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Returns the number after `name` at the start of a line of the file.
std::optional<uint64_t> NumberIn(const std::string& path, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(TextOf(path), '\n')) {
    uint64_t number = 0;
    if (!absl::ConsumePrefix(&line, name)) continue;
    line = absl::StripAsciiWhitespace(absl::StripSuffix(line, "kB"));
    if (absl::SimpleAtoi(line, &number)) return number;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> CgroupDirectories(const std::string& root) {
  std::string path;
  for (absl::string_view line : absl::StrSplit(TextOf(root + "/proc/self/cgroup"), '\n')) {
    if (absl::ConsumePrefix(&line, "0::")) path = std::string(absl::StripSuffix(line, "/"));
  }
  std::vector<std::string> directories;
  for (;; path.resize(path.find_last_of('/'))) {
    directories.push_back(absl::StrCat(root, "/sys/fs/cgroup", path));
    if (path.find_last_of('/') == std::string::npos) return directories;
  }
}

uint64_t FreeMemoryUnder(const std::string& root) {
  const auto available = NumberIn(root + "/proc/meminfo", "MemAvailable:");
  uint64_t free = available.has_value() ? *available * 1024 : UINT64_MAX;
  for (const std::string& directory : CgroupDirectories(root)) {
    const auto limit = NumberIn(directory + "/memory.max", "");
    const auto used = NumberIn(directory + "/memory.current", "");
    if (!limit.has_value() || !used.has_value()) continue;  // "max": it has no limit.
    const uint64_t cache = NumberIn(directory + "/memory.stat", "inactive_file ").value_or(0);
    const uint64_t taken = *used - std::min(*used, cache);
    free = std::min(free, *limit - std::min(*limit, taken));
  }
  return free;
}

}  // namespace kvtier
