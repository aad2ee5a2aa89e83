#include "tier_gpu/device/pinned_memory.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace kvtier {

std::vector<std::span<std::byte>> PinnedMemory::ChunksOf(std::span<std::byte> host) const {
  std::vector<std::span<std::byte>> chunks;
  while (!host.empty()) {
    const auto chunk = host.first(std::min<uint64_t>(host.size(), chunk_bytes_));
    chunks.push_back(chunk);
    host = host.subspan(chunk.size());
  }
  return chunks;
}

absl::Status PinnedMemory::Add(std::span<std::byte> host) {
  if (host.empty()) return absl::InvalidArgumentError("pinning 0 bytes; must be at least 1");
  const absl::MutexLock lock(&mu_);
  const auto after = ranges_.lower_bound(host.data() + host.size());
  if (after != ranges_.begin()) {
    const std::span<std::byte> before = std::prev(after)->second;
    if (before.data() + before.size() > host.data()) {
      return absl::InvalidArgumentError(
          absl::StrCat("pinning ", host.size(),
                       " bytes, some of which are pinned already; must be pinned once"));
    }
  }
  ranges_.emplace(host.data(), host);
  return absl::OkStatus();
}

absl::Status PinnedMemory::Remove(std::span<std::byte> host) {
  const absl::MutexLock lock(&mu_);
  const auto found = ranges_.find(host.data());
  if (found == ranges_.end() || found->second.size() != host.size()) {
    return absl::NotFoundError(
        absl::StrCat("unpinning ", host.size(), " bytes that were not pinned as one range"));
  }
  ranges_.erase(found);
  return absl::OkStatus();
}

absl::Status PinnedMemory::Check(std::span<const std::byte> run) const {
  const absl::MutexLock lock(&mu_);
  const auto after = ranges_.upper_bound(run.data());
  if (after != ranges_.begin()) {
    const std::span<std::byte> range = std::prev(after)->second;
    const uint64_t begin = run.data() - range.data();
    if (begin < range.size() && run.size() <= range.size() - begin) {
      if (run.empty() || begin / chunk_bytes_ == (begin + run.size() - 1) / chunk_bytes_) {
        return absl::OkStatus();
      }
      return absl::InvalidArgumentError(absl::StrCat("a segment of ", run.size(),
                                                     " bytes of host memory must lie in one "
                                                     "pinned chunk of ",
                                                     chunk_bytes_, " bytes"));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a segment of ", run.size(), " bytes of host memory must be pinned first"));
}

std::vector<std::span<std::byte>> PinnedMemory::Ranges() const {
  const absl::MutexLock lock(&mu_);
  std::vector<std::span<std::byte>> ranges;
  for (const auto& [start, range] : ranges_) ranges.push_back(range);
  return ranges;
}

}  // namespace kvtier
