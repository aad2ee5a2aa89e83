// Ranges of memory that the fake GPU sees, its own and the host's: each allocation, mapping and
// registration is one. Whoever reads or writes asks for all of its bytes, so that what goes over
// an end, was freed or was never made accessible is found.
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
std::byte* HostAddress(const void* device);  // For any address.

// False: it overlaps what is there. kMapped is accessible only after AllowAccess().
bool AddRange(const void* host, uint64_t bytes, RangeKind kind);
// Returns what was there. REQUIRES: a range of this kind begins there.
uint64_t RemoveRange(const void* host, RangeKind kind);
// False: that is not a number of mapped ranges, whole.
bool AllowAccess(const void* host, uint64_t bytes);

// The range that has this address of the device.
std::optional<SeenRange> RangeAt(const void* device);
// Where the bytes lie that a copy engine is asked for: in one range. Null: they do not.
std::byte* InOneRange(const void* device, uint64_t bytes);
// Where the bytes lie that a kernel is to touch: in ranges without a gap. Aborts: they do not.
std::byte* Touched(const void* device, uint64_t bytes);

}  // namespace kvtier::testing::fake_cuda

#endif  // KVTIER_TESTS_TESTING_FAKE_CUDA_RANGES_H_
