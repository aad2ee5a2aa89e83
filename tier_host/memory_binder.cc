#include "tier_host/memory_binder.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kvtier {
namespace {

constexpr int kMaxNodes = 1024;  // More than any kernel is built for.
constexpr int kBitsPerWord = CHAR_BIT * sizeof(unsigned long);

}  // namespace

absl::Status SystemMemoryBinder::Bind(std::span<std::byte> memory, std::span<const int> nodes) {
  std::vector<unsigned long> mask(kMaxNodes / kBitsPerWord);
  for (const int node : nodes) {
    if (node < 0 || node >= kMaxNodes) {
      return absl::InvalidArgumentError(
          absl::StrCat("NUMA node is ", node, "; must be 0 to ", kMaxNodes - 1));
    }
    mask[static_cast<size_t>(node) / kBitsPerWord] |= 1UL << (node % kBitsPerWord);
  }
  const int policy = nodes.size() == 1 ? MPOL_PREFERRED : MPOL_INTERLEAVE;
  // The kernel looks at one bit less than the number that it is given.
  const long bound = syscall(SYS_mbind, memory.data(), memory.size(), policy, mask.data(),
                             kMaxNodes + 1, MPOL_MF_MOVE);
  if (bound == 0) return absl::OkStatus();
  const std::string what =
      absl::StrCat("mbind to NUMA nodes ", absl::StrJoin(nodes, ","), ": ", strerror(errno));
  return errno == EINVAL ? absl::InvalidArgumentError(what) : absl::UnavailableError(what);
}

}  // namespace kvtier
