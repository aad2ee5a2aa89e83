#include "tier_gpu/device/emulated_region.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "tier_gpu/device/sealed_memory.h"

namespace kvtier {

absl::StatusOr<std::unique_ptr<EmulatedRegion>> EmulatedRegion::Reserve(const RegionShape& shape,
                                                                        AccessChecker* checker) {
  KVT_RETURN_IF_ERROR(CheckShape(shape));
  const uint64_t bytes = shape.handle_bytes * shape.max_handles;
  void* const start =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return MemoryError("mmap", bytes);
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
  return absl::ResourceExhaustedError(absl::StrCat(
      "emulated device: the region has ", shape_.max_handles, " handles, the most that it may"));
}

absl::Status EmulatedRegion::Grow() {
  KVT_RETURN_IF_ERROR(CheckRoom());
  KVT_ASSIGN_OR_RETURN(const int fd,
                       CreateSealedMemory("kvtier-emulated-gpu", shape_.handle_bytes));
  return Map(fd);
}

absl::Status EmulatedRegion::GrowBy(int descriptor) {
  KVT_RETURN_IF_ERROR(CheckRoom());
  KVT_ASSIGN_OR_RETURN(const int fd, DuplicateSealedMemory(descriptor, shape_.handle_bytes));
  return Map(fd);
}

absl::Status EmulatedRegion::Map(int descriptor) {
  const std::span<std::byte> place = memory(handles());
  if (mmap(place.data(), place.size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor,
           0) == MAP_FAILED) {
    const absl::Status failed = MemoryError("mmap", place.size());
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
  // Replaces the memory by unbacked addresses in one call, so no other mapping can come between.
  KVT_CHECK(mmap(place.data(), place.size(), PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED);
  close(descriptors_.back());
  descriptors_.pop_back();
}

}  // namespace kvtier
