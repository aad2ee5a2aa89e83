// AsideBlocks holds the blocks that an order of eviction has set aside. In each group they leave
// before all other blocks, in the order in which they were set aside. A block is named by its
// number.
//
// Pure bookkeeping. Executor thread only. O(log blocks). Memory: 40 bytes a block set aside.
#ifndef KVTIER_CORE_ASIDE_BLOCKS_H_
#define KVTIER_CORE_ASIDE_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "core/moment.h"

namespace kvtier {

class AsideBlocks {
 public:
  static constexpr uint32_t kNoBlock = ~uint32_t{0};

  // Adds the block as the last to leave. `parent` is the block that it continues; kNoBlock: it
  // continues none. REQUIRES: it is not here.
  void Add(uint32_t number, uint32_t group, uint32_t parent);
  // REQUIRES: the block is here, and was added with these.
  void Remove(uint32_t number, uint32_t group, uint32_t parent);

  // Returns how many blocks here continue block `number`.
  uint32_t ChildrenOf(uint32_t number) const {
    if (children_.empty()) return 0;
    const auto found = children_.find(number);
    return found == children_.end() ? 0 : found->second;
  }
  size_t size() const { return orders_.size(); }
  size_t size(uint32_t group) const { return group < groups_.size() ? groups_[group].size() : 0; }
  bool Contains(uint32_t number, uint32_t group) const;

  // Returns the first block of the group for which `may_leave` is true; nullopt: there is none. It
  // is false for few blocks, those that are held while some work uses them.
  template <typename MayLeave>
  std::optional<uint32_t> First(uint32_t group, MayLeave may_leave) const {
    if (group >= groups_.size()) return std::nullopt;
    for (const auto& [at, number] : groups_[group]) {
      if (may_leave(number)) return number;
    }
    return std::nullopt;
  }
  // Returns the first block of all groups for which `may_leave` is true.
  template <typename MayLeave>
  std::optional<uint32_t> First(MayLeave may_leave) const {
    std::optional<uint32_t> first;
    for (uint32_t group = 0; group < groups_.size(); ++group) {
      const std::optional<uint32_t> other = First(group, may_leave);
      if (!other.has_value()) continue;
      if (!first.has_value() || orders_.at(*other) < orders_.at(*first)) first = other;
    }
    return first;
  }

 private:
  // Numbers of blocks, by the moment at which they were set aside.
  using Group = absl::btree_map<PackedMoment, uint32_t, EarlierMoment>;

  std::vector<Group> groups_;
  absl::btree_map<uint32_t, uint32_t> children_;    // Number of them, by their parent.
  absl::btree_map<uint32_t, PackedMoment> orders_;  // Key in its group, by the block's number.
  Moment next_ = 0;                                 // Number of blocks ever set aside.
};

}  // namespace kvtier

#endif  // KVTIER_CORE_ASIDE_BLOCKS_H_
