#include "tier_gpu/device/emulated_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

absl::Status Failed(const char* call, uint64_t bytes) {
  const std::string why = std::generic_category().message(errno);
  return absl::ResourceExhaustedError(
      absl::StrCat("emulated device: ", bytes, " bytes: ", call, ": ", why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EmulatedRegion>> EmulatedRegion::Reserve(const RegionShape& shape,
                                                                        AccessChecker* checker) {
  KVT_RETURN_IF_ERROR(CheckShape(shape));
  const uint64_t bytes = shape.handle_bytes * shape.max_handles;
  void* const start =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return Failed("mmap", bytes);
  return absl::WrapUnique(new EmulatedRegion(shape, static_cast<std::byte*>(start), checker));
}

EmulatedRegion::~EmulatedRegion() {
  while (handles() > 0) Shrink();
  munmap(start_, shape_.handle_bytes * shape_.max_handles);
}

int EmulatedRegion::descriptor(size_t handle) const {
  KVT_CHECK(handle < handles());
  return descriptors_[handle];
}

absl::Status EmulatedRegion::CheckRoom() const {
  if (handles() < shape_.max_handles) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("emulated device: the region has all its ", shape_.max_handles, " handles"));
}

absl::Status EmulatedRegion::Grow() {
  KVT_RETURN_IF_ERROR(CheckRoom());
  const int fd = memfd_create("kvtier-emulated-gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return Failed("memfd_create", shape_.handle_bytes);
  if (ftruncate(fd, static_cast<off_t>(shape_.handle_bytes)) != 0 ||
      fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    const absl::Status failed = Failed("ftruncate or F_ADD_SEALS", shape_.handle_bytes);
    close(fd);
    return failed;
  }
  return Map(fd);
}

absl::Status EmulatedRegion::GrowBy(int descriptor) {
  KVT_RETURN_IF_ERROR(CheckRoom());
  struct stat facts{};
  if (fstat(descriptor, &facts) != 0 || facts.st_size != static_cast<off_t>(shape_.handle_bytes) ||
      (fcntl(descriptor, F_GET_SEALS) & kSeals) != kSeals) {
    return absl::InvalidArgumentError(absl::StrCat(
        "descriptor ", descriptor, " is no sealed handle of ", shape_.handle_bytes, " bytes"));
  }
  const int fd = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return Failed("F_DUPFD_CLOEXEC", shape_.handle_bytes);
  return Map(fd);
}

absl::Status EmulatedRegion::Map(int descriptor) {
  const std::span<std::byte> place = memory(handles());
  if (mmap(place.data(), place.size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor,
           0) == MAP_FAILED) {
    const absl::Status failed = Failed("mmap", place.size());
    close(descriptor);
    return failed;
  }
  if (checker_ != nullptr) {
    struct stat facts{};
    KVT_CHECK(fstat(descriptor, &facts) == 0);
    checker_->AddMapping(place, absl::StrCat("device memory ", facts.st_ino), 0);
  }
  descriptors_.push_back(descriptor);
  return absl::OkStatus();
}

void EmulatedRegion::Shrink() {
  KVT_CHECK(handles() > 0);
  const std::span<std::byte> place = memory(handles() - 1);
  if (checker_ != nullptr) checker_->RemoveMapping(place);
  // Back to addresses without memory, in one step: no other mapping can come between.
  KVT_CHECK(mmap(place.data(), place.size(), PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED);
  close(descriptors_.back());
  descriptors_.pop_back();
}

}  // namespace kvtier
