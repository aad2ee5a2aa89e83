#include "tier_host/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

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

}  // namespace

absl::Status SealedMemory::Failed(const char* call, uint64_t bytes) const {
  const std::string why = std::generic_category().message(errno);
  return absl::ResourceExhaustedError(absl::StrCat(
      "cannot have ", bytes, " bytes of shared memory \"", name_, "\": ", call, ": ", why));
}

absl::StatusOr<std::unique_ptr<SealedMemory>> SealedMemory::Create(const std::string& name,
                                                                   uint64_t bytes,
                                                                   Writers writers) {
  KVT_CHECK(bytes > 0 && bytes % kBlockAlignment == 0);
  const int fd = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  auto memory = absl::WrapUnique(new SealedMemory(name, fd));
  if (fd < 0) return memory->Failed("memfd_create", bytes);
  KVT_RETURN_IF_ERROR(memory->Map(bytes, writers));
  return memory;
}

absl::Status SealedMemory::Map(uint64_t bytes, Writers writers) {
  if (ftruncate(read_write_fd_, static_cast<off_t>(bytes)) != 0) return Failed("ftruncate", bytes);
  void* const start = MapShared(read_write_fd_, bytes, PROT_READ | PROT_WRITE);
  if (start == MAP_FAILED) return Failed("mmap", bytes);
  // Seals after our own mapping was made, which stays writable.
  const int seals = writers == Writers::kMakerOnly ? kSeals | F_SEAL_FUTURE_WRITE : kSeals;
  if (fcntl(read_write_fd_, F_ADD_SEALS, seals) != 0) return Failed("F_ADD_SEALS", bytes);
  bytes_ = {static_cast<std::byte*>(start), bytes};
  // Best effort: if this fails, core dumps also carry the memory.
  (void)madvise(start, bytes, MADV_DONTDUMP);

  const std::string path = absl::StrCat("/proc/self/fd/", read_write_fd_);
  read_only_fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (read_only_fd_ < 0) return Failed(path.c_str(), bytes);
  // A memfd starts with mode 0777, which lets any holder of the read-only
  // descriptor reopen it for writing in the same way.
  if (fchmod(read_write_fd_, 0) != 0) return Failed("fchmod", bytes);
  return absl::OkStatus();
}

absl::Status SealedMemory::Populate(uint64_t offset, uint64_t length) {
  KVT_CHECK(offset <= bytes_.size() && length <= bytes_.size() - offset);
  if (madvise(bytes_.data() + offset, length, MADV_POPULATE_WRITE) == 0) return absl::OkStatus();
  // Kernels before 5.14 have no MADV_POPULATE_WRITE; there the pages are taken without being
  // mapped, and each costs a minor fault later.
  if (errno == EINVAL &&
      fallocate(read_write_fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(length)) == 0) {
    return absl::OkStatus();
  }
  return Failed("populate", length);
}

void SealedMemory::Release(uint64_t offset, uint64_t length) {
  KVT_CHECK(offset <= bytes_.size() && length <= bytes_.size() - offset);
  // Should it fail, the memory goes with the last mapping of it.
  (void)fallocate(read_write_fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(offset), static_cast<off_t>(length));
}

uint64_t SealedMemory::held_bytes() const {
  constexpr uint64_t kStatBlockBytes = 512;
  struct stat file{};
  // fstat() cannot fail for an open descriptor.
  KVT_CHECK(fstat(read_write_fd_, &file) == 0);
  return static_cast<uint64_t>(file.st_blocks) * kStatBlockBytes;
}

SealedMemory::~SealedMemory() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  if (read_only_fd_ >= 0) close(read_only_fd_);
  if (read_write_fd_ >= 0) close(read_write_fd_);
}

}  // namespace kvtier
