// PageBuffer owns page-aligned bytes, as O_DIRECT demands of every buffer.
#ifndef KVTIER_TIER_DISK_IO_PAGE_BUFFER_H_
#define KVTIER_TIER_DISK_IO_PAGE_BUFFER_H_

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "core/check.h"
#include "core/space.h"

namespace kvtier {

class PageBuffer {
 public:
  // `bytes` is rounded up to whole pages; the content is undefined.
  explicit PageBuffer(uint64_t bytes)
      : size_(SlotBytes(bytes)),
        bytes_(static_cast<std::byte*>(std::aligned_alloc(kBlockAlignment, size_))) {
    KVT_CHECK(bytes_ != nullptr);
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
