#include "tests/testing/fake_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "core/check.h"

namespace kvtier::testing {

FakeMemory::FakeMemory(size_t slots, uint64_t slot_bytes)
    : slot_bytes_(slot_bytes), bytes_(slots * slot_bytes) {
  read_write_fd_ = memfd_create("kvtier-fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  KVT_CHECK(read_write_fd_ >= 0);
  KVT_CHECK(ftruncate(read_write_fd_, static_cast<off_t>(bytes_)) == 0);
  KVT_CHECK(fcntl(read_write_fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  const std::string path = "/proc/self/fd/" + std::to_string(read_write_fd_);
  read_only_fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  KVT_CHECK(read_only_fd_ >= 0);
  void* const at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, read_write_fd_, 0);
  KVT_CHECK(at != MAP_FAILED);
  base_ = static_cast<std::byte*>(at);
  for (size_t i = slots; i > 0; --i) free_.push_back((i - 1) * slot_bytes_);
}

FakeMemory::~FakeMemory() {
  munmap(base_, bytes_);
  close(read_only_fd_);
  close(read_write_fd_);
}

std::optional<uint64_t> FakeMemory::Allocate() {
  if (free_.empty()) return std::nullopt;
  const uint64_t offset = free_.back();
  free_.pop_back();
  return offset;
}

void FakeMemory::Free(uint64_t offset) {
  KVT_CHECK(offset % slot_bytes_ == 0 && offset < bytes_);
  free_.push_back(offset);
}

}  // namespace kvtier::testing
