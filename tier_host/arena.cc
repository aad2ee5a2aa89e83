#include "tier_host/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/huge_pages.h"
#include "core/space.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// F_SEAL_SEAL keeps a worker that may write from adding seals of its own.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

absl::Status Failed(const char* call, const std::string& name, uint64_t bytes) {
  const std::string why = std::generic_category().message(errno);
  return absl::ResourceExhaustedError(
      absl::StrCat("arena \"", name, "\" of ", bytes, " bytes: ", call, ": ", why));
}

// Takes the memory now. Kernels before 5.14 have no MADV_POPULATE_WRITE; there the
// pages are taken without being mapped, and each costs a minor fault later.
bool Populate(int fd, std::span<std::byte> bytes) {
  if (madvise(bytes.data(), bytes.size(), MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
  return fallocate(fd, 0, 0, static_cast<off_t>(bytes.size())) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Arena>> Arena::Create(const std::string& name, uint64_t bytes) {
  KVT_CHECK(bytes > 0 && bytes % kBlockAlignment == 0);
  const int fd = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return Failed("memfd_create", name, bytes);
  auto arena = absl::WrapUnique(new Arena(fd));
  KVT_RETURN_IF_ERROR(arena->Fill(name, bytes));
  return arena;
}

absl::Status Arena::Fill(const std::string& name, uint64_t bytes) {
  if (ftruncate(read_write_fd_, static_cast<off_t>(bytes)) != 0) {
    return Failed("ftruncate", name, bytes);
  }
  if (fcntl(read_write_fd_, F_ADD_SEALS, kSeals) != 0) return Failed("F_ADD_SEALS", name, bytes);
  void* const start = MapShared(read_write_fd_, bytes, PROT_READ | PROT_WRITE);
  if (start == MAP_FAILED) return Failed("mmap", name, bytes);
  bytes_ = {static_cast<std::byte*>(start), bytes};
  // All are wishes: where shared memory has no huge pages, and where core dumps carry
  // everything, the arena works the same.
  (void)madvise(start, bytes, MADV_HUGEPAGE);
  (void)madvise(start, bytes, MADV_DONTDUMP);
  huge_pages_ = TakeHugePages(bytes_);
  if (!Populate(read_write_fd_, bytes_)) return Failed("populate", name, bytes);

  const std::string path = absl::StrCat("/proc/self/fd/", read_write_fd_);
  read_only_fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (read_only_fd_ < 0) return Failed(path.c_str(), name, bytes);
  // A memfd starts with mode 0777, which lets any holder of the read-only
  // descriptor reopen it for writing in the same way.
  if (fchmod(read_write_fd_, 0) != 0) return Failed("fchmod", name, bytes);
  return absl::OkStatus();
}

Arena::~Arena() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  if (read_only_fd_ >= 0) close(read_only_fd_);
  close(read_write_fd_);
}

}  // namespace kvtier
