#include "core/allowed_processors.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <thread>

#include "core/free_memory.h"

namespace kvtier {
namespace {

// Returns the processors of the affinity mask.
size_t ProcessorsOfMask() {
  cpu_set_t mask;
  // The call fails where the machine has more processors than the mask has bits.
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return std::thread::hardware_concurrency();
  return static_cast<size_t>(CPU_COUNT(&mask));
}

// Returns the processors that the quota of a cgroup is worth; nullopt: it has none.
std::optional<size_t> QuotaOf(const std::string& directory) {
  int64_t quota = 0;
  int64_t period = 0;
  std::ifstream both(directory + "/cpu.max");  // Version 2: "max 100000", or a number for "max".
  if (!(both >> quota >> period)) {
    if (!(std::ifstream(directory + "/cpu.cfs_quota_us") >> quota)) return std::nullopt;
    if (!(std::ifstream(directory + "/cpu.cfs_period_us") >> period)) return std::nullopt;
  }
  if (quota <= 0 || period <= 0) return std::nullopt;  // Version 1 says -1: no quota.
  return static_cast<size_t>((quota + period - 1) / period);
}

}  // namespace

size_t AllowedProcessors(const std::string& root) {
  size_t least = ProcessorsOfMask();
  for (const std::string& directory : CgroupDirectories("cpu", root)) {
    least = std::min(least, QuotaOf(directory).value_or(least));
  }
  return std::max<size_t>(1, least);
}

}  // namespace kvtier
