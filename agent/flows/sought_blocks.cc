#include "agent/flows/sought_blocks.h"

#include <algorithm>
#include <utility>

namespace kvtier {

void SoughtBlocks::NoteAnswer(const LocateReply& answer) {
  may_have_others = std::ranges::any_of(
      answer, [](const auto& named) { return named.size() >= kMaxHoldersPerReply; });
}

bool SoughtBlocks::AddHolders(const LocateReply& answer) {
  bool any_new = false;
  for (size_t i = 0; i < answer.size(); ++i) {
    for (const Holder& holder : answer[i]) {
      const bool was_tried = std::ranges::find(tried, holder.node) != tried.end();
      const bool is_known =
          std::ranges::find(holders[i], holder.node, &Holder::node) != holders[i].end();
      if (was_tried || is_known) continue;
      holders[i].push_back(holder);
      any_new = true;
    }
  }
  return any_new;
}

void SoughtBlocks::DropUnheld() {
  size_t kept = 0;
  for (size_t i = 0; i < holders.size(); ++i) {
    if (holders[i].empty()) continue;
    std::swap(keys[kept], keys[i]);
    std::swap(holders[kept], holders[i]);
    ++kept;
  }
  keys.resize(kept);
  holders.resize(kept);
}

void SoughtBlocks::DropHolder(size_t index, const NodeId& node) {
  std::erase_if(holders[index], [&](const Holder& each) { return each.node == node; });
}

void SoughtBlocks::RemoveFront(size_t count) {
  const auto removed = static_cast<ptrdiff_t>(count);
  keys.erase(keys.begin(), keys.begin() + removed);
  holders.erase(holders.begin(), holders.begin() + removed);
}

SoughtBlocks SoughtBlocks::Empty() const {
  return {.domain = domain,
          .payer = payer,
          .erasures = erasures,
          .space = space,
          .lengths = lengths,
          .deadline = deadline,
          .hint = hint,
          .tried = tried,
          .may_have_others = may_have_others};
}

SoughtBlocks SoughtBlocks::Part(size_t first, size_t count) const {
  const auto begin = static_cast<ptrdiff_t>(first);
  const auto end = static_cast<ptrdiff_t>(first + count);
  SoughtBlocks part = Empty();
  part.keys.assign(keys.begin() + begin, keys.begin() + end);
  part.holders.assign(holders.begin() + begin, holders.begin() + end);
  return part;
}

}  // namespace kvtier
