#include "tier_host/arena.h"

#include <sys/mman.h>

#include "absl/memory/memory.h"
#include "core/huge_pages.h"
#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<std::unique_ptr<Arena>> Arena::Reserve(const std::string& name, uint64_t bytes,
                                                      SealedMemory::Writers writers) {
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<SealedMemory> memory,
                       SealedMemory::Create(name, bytes, writers));
  // Best effort, as in Fill(): where shared memory has no huge pages, the arena works the same.
  (void)madvise(memory->bytes().data(), bytes, MADV_HUGEPAGE);
  return absl::WrapUnique(new Arena(std::move(memory)));
}

absl::StatusOr<std::unique_ptr<Arena>> Arena::Create(const std::string& name, uint64_t bytes,
                                                     SealedMemory::Writers writers) {
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<Arena> arena, Reserve(name, bytes, writers));
  KVT_RETURN_IF_ERROR(arena->Fill(0, bytes));
  return arena;
}

absl::Status Arena::Fill(uint64_t offset, uint64_t length) {
  // Huge pages are not tried again once the kernel had none, because its search takes long.
  if (huge_pages() && !TakeHugePages(memory_->bytes().subspan(offset, length))) {
    huge_pages_.store(false, std::memory_order_relaxed);
  }
  return memory_->Populate(offset, length);
}

}  // namespace kvtier
