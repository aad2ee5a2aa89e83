// Arena is the host memory of one isolation domain, mapped by the agent and by its workers. It
// knows nothing of slots or keys.
#ifndef KVTIER_TIER_HOST_ARENA_H_
#define KVTIER_TIER_HOST_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "tier_host/sealed_memory.h"

namespace kvtier {

// Thread-safe: immutable after Create().
class Arena {
 public:
  // Makes SealedMemory of `bytes`, touched, so that memory is charged to the agent and missing
  // memory shows now; in huge pages as far as the kernel has them. REQUIRES and errors:
  // SealedMemory::Create()'s.
  static absl::StatusOr<std::unique_ptr<Arena>> Create(
      const std::string& name, uint64_t bytes,
      SealedMemory::Writers writers = SealedMemory::Writers::kHolders);

  std::span<std::byte> bytes() const { return memory_->bytes(); }
  // False: some of it lies in small pages, and disks move it slower (core/huge_pages.h).
  bool huge_pages() const { return huge_pages_; }
  // As SealedMemory has them.
  int read_write_fd() const { return memory_->read_write_fd(); }
  int read_only_fd() const { return memory_->read_only_fd(); }

 private:
  Arena(std::unique_ptr<SealedMemory> memory, bool huge_pages)
      : memory_(std::move(memory)), huge_pages_(huge_pages) {}

  const std::unique_ptr<SealedMemory> memory_;
  const bool huge_pages_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_HOST_ARENA_H_
