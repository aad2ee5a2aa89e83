// PagePool lends single pages for records' headers, which every put and get needs for as
// long as its I/O takes: the same few over and over, warm in the cache.
//
// Keeps as many as were ever lent at a time. Executor thread only.
#ifndef KVTIER_TIER_DISK_IO_PAGE_POOL_H_
#define KVTIER_TIER_DISK_IO_PAGE_POOL_H_

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "core/space.h"
#include "tier_disk/io/page_buffer.h"

namespace kvtier {

class PagePool {
 public:
  // Goes back when it is destroyed; the pool outlives it.
  class Page {
   public:
    explicit Page(PagePool* pool) : pool_(pool), page_(pool->Take()) {}
    Page(const Page&) = delete;
    Page& operator=(const Page&) = delete;
    ~Page() { pool_->free_.push_back(std::move(page_)); }
    // Undefined content.
    std::span<std::byte, kBlockAlignment> bytes() { return page_.bytes().first<kBlockAlignment>(); }

   private:
    PagePool* const pool_;  // Not owned.
    PageBuffer page_;
  };

 private:
  PageBuffer Take() {
    if (free_.empty()) return PageBuffer(kBlockAlignment);
    PageBuffer page = std::move(free_.back());
    free_.pop_back();
    return page;
  }

  std::vector<PageBuffer> free_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_PAGE_POOL_H_
