#include "tier_host/arena.h"

#include <sys/mman.h>

#include "absl/memory/memory.h"
#include "core/huge_pages.h"
#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<std::unique_ptr<Arena>> Arena::Create(const std::string& name, uint64_t bytes,
                                                     SealedMemory::Writers writers) {
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<SealedMemory> memory,
                       SealedMemory::Create(name, bytes, writers));
  // Both are wishes: where shared memory has no huge pages, the arena works the same.
  (void)madvise(memory->bytes().data(), bytes, MADV_HUGEPAGE);
  const bool huge_pages = TakeHugePages(memory->bytes());
  KVT_RETURN_IF_ERROR(memory->Populate(0, bytes));
  return absl::WrapUnique(new Arena(std::move(memory), huge_pages));
}

}  // namespace kvtier
