#include "tier_gpu/device/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace kvtier {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

absl::Status MemoryError(const char* call, uint64_t bytes) {
  const std::string why = std::generic_category().message(errno);
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot have ", bytes, " bytes of shared memory: ", call, ": ", why));
}

absl::StatusOr<int> CreateSealedMemory(const char* name, uint64_t bytes) {
  const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return MemoryError("memfd_create", bytes);
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0 || fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    const absl::Status failed = MemoryError("ftruncate or F_ADD_SEALS", bytes);
    close(fd);
    return failed;
  }
  return fd;
}

absl::StatusOr<int> DuplicateSealedMemory(int descriptor, uint64_t bytes) {
  struct stat facts{};
  if (fstat(descriptor, &facts) != 0 || facts.st_size != static_cast<off_t>(bytes) ||
      (fcntl(descriptor, F_GET_SEALS) & kSeals) != kSeals) {
    return absl::InvalidArgumentError(
        absl::StrCat("descriptor ", descriptor, "; must be sealed memory of ", bytes, " bytes"));
  }
  const int fd = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return MemoryError("F_DUPFD_CLOEXEC", bytes);
  return fd;
}

}  // namespace kvtier
