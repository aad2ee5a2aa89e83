// PagePool lends single pages for records' headers. Every put and get needs one for as long as its
// I/O takes, so the same few are reused, warm in the cache.
//
// The pool keeps as many pages as were ever lent at a time. Executor thread only.
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
  // Page on loan; its destructor gives it back. The pool must outlive it.
  class Page {
   public:
    explicit Page(PagePool* pool) : pool_(pool), page_(pool->Take()) {}
    Page(const Page&) = delete;
    Page& operator=(const Page&) = delete;
    ~Page() { pool_->free_.push_back(std::move(page_)); }
    // Returns the page; the content is undefined.
    std::span<std::byte, kBlockAlignment> bytes() { return page_.bytes().first<kBlockAlignment>(); }

   private:
    PagePool* const pool_;  // Borrowed.
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
