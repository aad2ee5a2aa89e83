// PageBuffer owns page-aligned bytes, which O_DIRECT requires. A large buffer uses huge pages if
// the kernel has them, because devices fill those several times as fast.
#ifndef KVTIER_TIER_DISK_IO_PAGE_BUFFER_H_
#define KVTIER_TIER_DISK_IO_PAGE_BUFFER_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "core/check.h"
#include "core/huge_pages.h"
#include "core/space.h"

namespace kvtier {

class PageBuffer {
 public:
  // Allocates `bytes`, rounded up to whole pages; the content is undefined.
  explicit PageBuffer(uint64_t bytes) : size_(SlotBytes(bytes)) {
    const bool large = size_ >= kHugePageBytes;
    const uint64_t alignment = large ? kHugePageBytes : kBlockAlignment;
    const uint64_t taken = (size_ + alignment - 1) / alignment * alignment;
    bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, taken)));
    KVT_CHECK(bytes_ != nullptr);
    // Ignores a refusal: the pages are then small.
    if (large) madvise(bytes_.get(), taken, MADV_HUGEPAGE);
  }
  std::span<std::byte> bytes() { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  size_t size_;
  std::unique_ptr<std::byte, Free> bytes_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_PAGE_BUFFER_H_
