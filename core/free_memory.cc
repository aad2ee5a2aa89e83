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

// Names of files of a cgroup, and of its page cache in memory.stat.
struct MemoryFiles {
  const char* limit;
  const char* used;
  const char* cache;
};
// Versions 2 and 1 of cgroups.
constexpr MemoryFiles kVersions[] = {
    {"/memory.max", "/memory.current", "inactive_file "},
    {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file "}};

// Version 1 says a number near 2^63 where there is no limit.
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

}  // namespace

std::vector<std::string> CgroupDirectories(absl::string_view controller, const std::string& root) {
  std::string path;
  std::string mount = root + "/sys/fs/cgroup";
  // A line is "number:controllers:path"; without controllers it is v2's.
  for (const absl::string_view line : absl::StrSplit(TextOf(root + "/proc/self/cgroup"), '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() < 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    const bool is_v1 = std::ranges::find(controllers, controller) != controllers.end();
    if (!is_v1 && line.substr(0, 3) != "0::") continue;
    path = std::string(absl::StripSuffix(parts[2], "/"));
    if (!is_v1) continue;
    absl::StrAppend(&mount, "/", controller);
    break;
  }
  std::vector<std::string> directories;
  for (;; path.resize(path.find_last_of('/'))) {
    directories.push_back(mount + path);
    if (path.find_last_of('/') == std::string::npos) return directories;
  }
}

MemoryLimit CgroupMemoryLimit(const std::string& root) {
  MemoryLimit least;
  for (const std::string& directory : CgroupDirectories("memory", root)) {
    for (const MemoryFiles& files : kVersions) {
      const std::string file = directory + files.limit;
      const auto limit = NumberIn(file, "");
      if (!limit.has_value() || *limit >= std::min(kNoLimit, least.bytes)) continue;
      least = {.bytes = *limit, .file = file};
    }
  }
  return least;
}

MemoryLimit LeastMemoryLimit(const std::string& root) {
  const std::string file = root + "/proc/meminfo";
  MemoryLimit least = CgroupMemoryLimit(root);
  const auto machine = NumberIn(file, "MemTotal:");
  if (machine.has_value() && *machine * 1024 < least.bytes) {
    least = {.bytes = *machine * 1024, .file = file + " (MemTotal)"};
  }
  return least;
}

uint64_t FreeMemoryUnder(const std::string& root) {
  const auto available = NumberIn(root + "/proc/meminfo", "MemAvailable:");
  uint64_t free = available.has_value() ? *available * 1024 : UINT64_MAX;
  for (const std::string& directory : CgroupDirectories("memory", root)) {
    for (const MemoryFiles& files : kVersions) {
      const auto limit = NumberIn(directory + files.limit, "");
      const auto used = NumberIn(directory + files.used, "");
      if (!limit.has_value() || !used.has_value()) continue;  // "max": it has no limit.
      const uint64_t cache = NumberIn(directory + "/memory.stat", files.cache).value_or(0);
      const uint64_t taken = *used - std::min(*used, cache);
      free = std::min(free, *limit - std::min(*limit, taken));
    }
  }
  return free;
}

}  // namespace kvtier
