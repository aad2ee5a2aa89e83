#include "client/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/huge_pages.h"

namespace kvtier {
namespace {

absl::Status CheckFile(int fd, uint64_t bytes) {
  struct stat info{};
  if (fstat(fd, &info) != 0) {
    return absl::UnavailableError(absl::StrCat("fstat of shared memory: ", strerror(errno)));
  }
  if (bytes == 0 || static_cast<uint64_t>(info.st_size) < bytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the agent says its shared memory has ", bytes, " bytes; the file has ", info.st_size));
  }
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return absl::FailedPreconditionError(
        "the agent's shared memory is not sealed by F_SEAL_SHRINK");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Mapping>> Mapping::Map(int fd, uint64_t bytes, Access access) {
  if (absl::Status checked = CheckFile(fd, bytes); !checked.ok()) return checked;
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  // Maps the agent's huge pages as huge pages.
  void* const at = MapShared(fd, bytes, protection);
  if (at == MAP_FAILED) {
    return absl::UnavailableError(
        absl::StrCat("mmap of ", bytes, " bytes of shared memory: ", strerror(errno)));
  }
  // Keeps the node's whole cache out of a worker's core dump. It is advice, so errors are ignored.
  static_cast<void>(madvise(at, bytes, MADV_DONTDUMP));
  return std::shared_ptr<const Mapping>(
      new Mapping({static_cast<std::byte*>(at), static_cast<size_t>(bytes)}, bytes, access));
}

absl::StatusOr<std::shared_ptr<Mapping>> Mapping::MapHandles(std::span<const int> handles,
                                                             uint64_t handle_bytes,
                                                             size_t max_handles) {
  KVT_CHECK(handles.size() <= max_handles);
  for (const int fd : handles) {
    if (absl::Status checked = CheckFile(fd, handle_bytes); !checked.ok()) return checked;
  }
  uint64_t range = 0;
  if (__builtin_mul_overflow(handle_bytes, uint64_t{max_handles}, &range)) {
    return absl::FailedPreconditionError(absl::StrCat("the agent says its pool has ", max_handles,
                                                      " handles of ", handle_bytes,
                                                      " bytes, more than an address space has"));
  }
  void* const at =
      mmap(nullptr, range, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return absl::UnavailableError(
        absl::StrCat("mmap of addresses for ", range, " bytes of a pool: ", strerror(errno)));
  }
  // Owns the range from here on, so it is unmapped also when a handle cannot be mapped.
  std::shared_ptr<Mapping> mapping(
      new Mapping({static_cast<std::byte*>(at), range}, 0, Access::kReadWrite));
  for (size_t i = 0; i < handles.size(); ++i) {
    if (absl::Status put = mapping->PutHandle(i, handles[i], handle_bytes); !put.ok()) return put;
  }
  return mapping;
}

absl::Status Mapping::PutHandle(size_t index, int fd, uint64_t handle_bytes) {
  if (absl::Status checked = CheckFile(fd, handle_bytes); !checked.ok()) return checked;
  const size_t begin = index * handle_bytes;
  KVT_CHECK(begin <= size() && handle_bytes <= range_.size() - begin);
  std::byte* const place = range_.data() + begin;
  if (mmap(place, handle_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
      MAP_FAILED) {
    return absl::UnavailableError(
        absl::StrCat("mmap of handle ", index, " of a pool: ", strerror(errno)));
  }
  static_cast<void>(madvise(place, handle_bytes, MADV_DONTDUMP));  // Not in core dumps.
  size_.store(std::max<size_t>(size(), begin + handle_bytes), std::memory_order_release);
  return absl::OkStatus();
}

void Mapping::CutHandles(size_t count, uint64_t handle_bytes) {
  const size_t end = size();
  const size_t left = count * handle_bytes;
  KVT_CHECK(left <= end);
  size_.store(left, std::memory_order_release);
  if (left == end) return;
  // A late reader of a lease that ended finds zeros here. If the kernel has no memory even for
  // them, the old memory stays mapped until the mapping ends.
  void* const zeros = mmap(range_.data() + left, end - left, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (zeros != MAP_FAILED) static_cast<void>(madvise(zeros, end - left, MADV_DONTDUMP));
}

Mapping::~Mapping() {
  ForgetKeptMemory(range_);
  KVT_CHECK(munmap(range_.data(), range_.size()) == 0);
}

std::optional<std::span<const std::byte>> Mapping::Read(uint64_t offset, uint64_t length) const {
  if (!Holds(offset, length)) return std::nullopt;
  return range_.subspan(offset, length);
}

std::optional<std::span<std::byte>> Mapping::Write(uint64_t offset, uint64_t length) const {
  KVT_CHECK(access_ == Access::kReadWrite);
  if (!Holds(offset, length)) return std::nullopt;
  return range_.subspan(offset, length);
}

}  // namespace kvtier
