// Arena is the host memory of one isolation domain, mapped by the agent and by its workers: a
// stretch of addresses that never changes, with memory in parts of it. It knows nothing of slots or
// keys.
#ifndef KVTIER_TIER_HOST_ARENA_H_
#define KVTIER_TIER_HOST_ARENA_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tier_host/sealed_memory.h"

namespace kvtier {

// Thread-safe.
class Arena {
 public:
  // Makes SealedMemory of `bytes` without taking its memory. REQUIRES and errors:
  // SealedMemory::Create()'s.
  static absl::StatusOr<std::unique_ptr<Arena>> Reserve(
      const std::string& name, uint64_t bytes,
      SealedMemory::Writers writers = SealedMemory::Writers::kHolders);
  // Reserves and fills all of it. Errors also: Fill()'s.
  static absl::StatusOr<std::unique_ptr<Arena>> Create(
      const std::string& name, uint64_t bytes,
      SealedMemory::Writers writers = SealedMemory::Writers::kHolders);

  // Backs [offset, offset + length) with memory, in huge pages as far as the kernel has them, so
  // that it is charged to the agent and a lack of memory shows now. Memory that is there already
  // stays. Takes some 50 ms for 64 MiB. REQUIRES and errors: SealedMemory::Populate()'s.
  absl::Status Fill(uint64_t offset, uint64_t length);
  // Gives the memory of [offset, offset + length) back to the system, in every process that maps
  // it: it reads as zeros from now on. Takes some 20 ms for 64 MiB. REQUIRES: as
  // SealedMemory::Release(); no device and no ring has the memory pinned.
  void Empty(uint64_t offset, uint64_t length) { memory_->Release(offset, length); }
  // Returns how many bytes of the arena have memory, whichever process touched them.
  uint64_t held_bytes() const { return memory_->held_bytes(); }

  std::span<std::byte> bytes() const { return memory_->bytes(); }
  // Returns false if some of it lies in small pages, and disks move it slower (core/huge_pages.h).
  bool huge_pages() const { return huge_pages_.load(std::memory_order_relaxed); }
  // Return the descriptors of the SealedMemory.
  int read_write_fd() const { return memory_->read_write_fd(); }
  int read_only_fd() const { return memory_->read_only_fd(); }

 private:
  explicit Arena(std::unique_ptr<SealedMemory> memory) : memory_(std::move(memory)) {}

  const std::unique_ptr<SealedMemory> memory_;
  // Relaxed: a hint for the next Fill(), and a figure; nothing is ordered by it.
  std::atomic<bool> huge_pages_{true};
};

}  // namespace kvtier

#endif  // KVTIER_TIER_HOST_ARENA_H_
