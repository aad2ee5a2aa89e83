#include "bench/policy/block_list.h"

#include "core/check.h"

namespace kvtier::bench {

BlockList::BlockList(size_t blocks_of_trace) : links_(blocks_of_trace + 1) {
  links_[end()] = {.newer = end(), .older = end()};
}

void BlockList::PushNewest(uint32_t block) {
  KVT_CHECK(!Contains(block));
  const uint32_t before = links_[end()].older;
  links_[block] = {.newer = end(), .older = before};
  links_[before].newer = block;
  links_[end()].older = block;
  ++size_;
}

void BlockList::Remove(uint32_t block) {
  KVT_CHECK(Contains(block));
  const Link link = links_[block];
  links_[link.newer].older = link.older;
  links_[link.older].newer = link.newer;
  links_[block] = {};
  --size_;
}

void BlockList::MoveToNewest(uint32_t block) {
  Remove(block);
  PushNewest(block);
}

uint32_t BlockList::PopOldest() {
  const uint32_t oldest = Oldest();
  Remove(oldest);
  return oldest;
}

}  // namespace kvtier::bench
