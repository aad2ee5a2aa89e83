// PinnedMemory knows which host memory a device may copy from and to: the ranges that were pinned,
// in the chunks in which the driver registered them. It pins nothing itself.
#ifndef KVTIER_TIER_GPU_DEVICE_PINNED_MEMORY_H_
#define KVTIER_TIER_GPU_DEVICE_PINNED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace kvtier {

// Maximum bytes of one registration. One of 512 GiB or more fails on R580 drivers, as its table of
// 4 KiB pages outgrows an int.
inline constexpr uint64_t kPinChunkBytes = uint64_t{16} << 30;

// PinnedMemory is a set of ranges. Thread-safe.
class PinnedMemory {
 public:
  explicit PinnedMemory(uint64_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}

  // Returns the range in chunks, counted from its own start; the last one may be shorter.
  std::vector<std::span<std::byte>> ChunksOf(std::span<std::byte> host) const;
  // Adds a range. Errors: kInvalidArgument, the range is empty or overlaps one that is there.
  absl::Status Add(std::span<std::byte> host);
  // Removes a range. Errors: kNotFound, exactly this range was not added.
  absl::Status Remove(std::span<std::byte> host);
  // Checks a run. Errors: kInvalidArgument, the run is not pinned, or crosses the border between
  // chunks.
  absl::Status Check(std::span<const std::byte> run) const;
  std::vector<std::span<std::byte>> Ranges() const;

 private:
  const uint64_t chunk_bytes_;
  mutable absl::Mutex mu_;
  // Pinned ranges by their start.
  std::map<const std::byte*, std::span<std::byte>> ranges_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_PINNED_MEMORY_H_
