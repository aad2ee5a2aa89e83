// Ranges of memory that the fake GPU sees, its own and the host's: each allocation, mapping and
// registration is one. Each read or write looks up all of its bytes here, so that one over an end,
// of freed memory, or of memory that was never made accessible is found.
//
// Thread-safe. Addresses are those of the host unless a name says otherwise.
#ifndef KVTIER_TESTS_TESTING_FAKE_CUDA_RANGES_H_
#define KVTIER_TESTS_TESTING_FAKE_CUDA_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <optional>

namespace kvtier::testing::fake_cuda {

enum class RangeKind : uint8_t { kAllocated, kMapped, kHostAllocated, kHostRegistered };
constexpr bool IsOnDevice(RangeKind kind) {
  return kind == RangeKind::kAllocated || kind == RangeKind::kMapped;
}

struct SeenRange {
  std::byte* begin = nullptr;
  uint64_t bytes = 0;
  RangeKind kind{};
  bool accessible = true;
};

void* DeviceSide(const void* host);
std::byte* HostAddress(const void* device);  // Takes any address.

// Adds a range; returns false if it overlaps another. A kMapped range is accessible only after
// AllowAccess().
bool AddRange(const void* host, uint64_t bytes, RangeKind kind);
// Removes a range and returns its bytes. REQUIRES: a range of this kind begins there.
uint64_t RemoveRange(const void* host, RangeKind kind);
// Makes mapped ranges accessible; returns false if the bytes are not those of whole ranges.
bool AllowAccess(const void* host, uint64_t bytes);

// Returns the range that has this address of the device; nullopt: none has.
std::optional<SeenRange> RangeAt(const void* device);
// Returns the host's address of bytes for a copy engine; null: they do not lie in one range.
std::byte* InOneRange(const void* device, uint64_t bytes);
// Returns the host's address of bytes for a kernel. Aborts if they do not lie in ranges without a
// gap.
std::byte* Touched(const void* device, uint64_t bytes);

}  // namespace kvtier::testing::fake_cuda

#endif  // KVTIER_TESTS_TESTING_FAKE_CUDA_RANGES_H_
