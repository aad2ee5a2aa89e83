#include "tier_gpu/device/signal_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {
namespace {

constexpr size_t kWordStride = kSignalPageBytes / kSignalWords;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

absl::Status Failed(const char* call) {
  return absl::ResourceExhaustedError(
      absl::StrCat("signal page: ", call, ": ", std::generic_category().message(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SignalPage>> SignalPage::Create() {
  const int fd = memfd_create("kvtier-signals", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return Failed("memfd_create");
  if (ftruncate(fd, kSignalPageBytes) != 0 || fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    const absl::Status failed = Failed("ftruncate or F_ADD_SEALS");
    close(fd);
    return failed;
  }
  return Map(fd);
}

absl::StatusOr<std::unique_ptr<SignalPage>> SignalPage::Import(int descriptor) {
  struct stat facts{};
  // Without the seals, its owner could cut the page off under its readers.
  if (fstat(descriptor, &facts) != 0 || facts.st_size != kSignalPageBytes ||
      (fcntl(descriptor, F_GET_SEALS) & kSeals) != kSeals) {
    return absl::InvalidArgumentError(
        absl::StrCat("descriptor ", descriptor, " is not a sealed signal page"));
  }
  const int fd = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return Failed("F_DUPFD_CLOEXEC");
  return Map(fd);
}

absl::StatusOr<std::unique_ptr<SignalPage>> SignalPage::Map(int descriptor) {
  void* const start =
      mmap(nullptr, kSignalPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (start == MAP_FAILED) {
    const absl::Status failed = Failed("mmap");
    close(descriptor);
    return failed;
  }
  return absl::WrapUnique(
      new SignalPage(descriptor, {static_cast<std::byte*>(start), kSignalPageBytes}));
}

SignalPage::~SignalPage() {
  munmap(bytes_.data(), bytes_.size());
  close(descriptor_);
}

SignalWord* SignalPage::word(size_t index) const {
  KVT_CHECK(index < kSignalWords);
  return reinterpret_cast<SignalWord*>(bytes_.data() + index * kWordStride);
}

void SignalPage::Release(size_t first, size_t count) const {
  for (size_t i = first; i < first + count; ++i) word(i)->store(kReleased);
}

}  // namespace kvtier
