// FakeMemory is one sealed memfd cut into slots, for FakeAgent.
#ifndef KVTIER_TESTS_TESTING_FAKE_MEMORY_H_
#define KVTIER_TESTS_TESTING_FAKE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace kvtier::testing {

// FakeMemory is thread-compatible.
class FakeMemory {
 public:
  FakeMemory(size_t slots, uint64_t slot_bytes);
  ~FakeMemory();
  FakeMemory(const FakeMemory&) = delete;
  FakeMemory& operator=(const FakeMemory&) = delete;

  // Returns the offset of a free slot; nullopt: there is none.
  std::optional<uint64_t> Allocate();
  void Free(uint64_t offset);
  std::byte* at(uint64_t offset) const { return base_ + offset; }
  uint64_t bytes() const { return bytes_; }
  int read_write_fd() const { return read_write_fd_; }
  int read_only_fd() const { return read_only_fd_; }

 private:
  const uint64_t slot_bytes_;
  const uint64_t bytes_;
  int read_write_fd_ = -1;
  int read_only_fd_ = -1;
  std::byte* base_ = nullptr;
  std::vector<uint64_t> free_;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_FAKE_MEMORY_H_
