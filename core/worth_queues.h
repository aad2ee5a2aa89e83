// WorthQueues keeps items in the order in which they would leave. By worth (Ranked), the one whose
// room is worth the least comes first, and of two alike the one used longest ago. An item's worth
// is that of its class at its age (ReuseHazards), times its weight and cost, so the order of two
// items may turn around while both wait.
//
// Items of one class, weight, cost and group are a queue, by the time of their last use. In a queue
// the buckets of age are ranked, so its cheapest item is found by looking for the first bucket of
// the ranking that has one, and is remembered until an item can have aged into a cheaper bucket.
// The cheapest of all is looked for among the queues that have items: some dozens.
//
// Pure bookkeeping. Executor thread only. A change costs O(log items), a choice
// O(queues + log items). Memory: 12 bytes an item and 80 % of that again for the tree.
#ifndef KVTIER_CORE_WORTH_QUEUES_H_
#define KVTIER_CORE_WORTH_QUEUES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "core/moment.h"
#include "core/reuse_hazards.h"
#include "core/reuse_state.h"

namespace kvtier {

class WorthQueues {
 public:
  using Item = uint32_t;
  // QueueId tells queues apart by the properties that all items of a queue share.
  struct QueueId {
    ReuseClass of{};
    int8_t weight = 0;   // Weight, as in ReuseState.
    int8_t cost = 0;     // Cost, as in ReuseState; LRU ignores it.
    uint32_t group = 0;  // Group, chosen by the caller: choices are made in one group or in all.
    friend bool operator==(const QueueId&, const QueueId&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const QueueId& id) {
      return H::combine(std::move(h), id.of, id.weight, id.cost, id.group);
    }
  };
  // Ranked says which of two items leaves first.
  enum class Ranked : uint8_t {
    kByWorth,   // The one worth less.
    kByWeight,  // The one whose queue has the lower weight; of two alike, the one used longer ago.
  };
  struct Choice {
    Item item = 0;
    Moment last = 0;  // Time of the last use.
    // Uses a second that its room is expected to serve, times weight and cost; ranked by
    // weight, that weight.
    double worth = 0;
    bool LeavesBefore(const Choice& other) const {
      return worth != other.worth ? worth < other.worth : last < other.last;
    }
  };
  static constexpr uint32_t kAllGroups = ~uint32_t{0};

  // Does not own `hazards`.
  explicit WorthQueues(const ReuseHazards* hazards) : hazards_(hazards) {}

  // Returns the number of the queue, which is made if need be and stays.
  uint32_t QueueOf(const QueueId& id) {
    // Blocks of one request come one after the other, and most often into one queue.
    if (latest_ < queues_.size() && queues_[latest_].id == id) return latest_;
    return latest_ = LookUp(id);
  }
  const QueueId& IdOf(uint32_t queue) const { return queues_[queue].id; }
  // REQUIRES: `queue` is a number of QueueOf(). Add(): no item of the queue has this `last`;
  // Remove(): one has.
  void Add(uint32_t queue, Moment last, Item item);
  void Remove(uint32_t queue, Moment last);
  bool Contains(const QueueId& id, Moment last, Item item) const;
  size_t size() const { return size_; }

  // Returns the item of the group that leaves first at `now`; nullopt: it has none.
  std::optional<Choice> First(Ranked ranked, Moment now, uint32_t group = kAllGroups);
  // Returns the rank of an item that was used last at `last` and has the queue's properties,
  // whether or not it is in the queue.
  Choice RankOf(Ranked ranked, const QueueId& id, Moment last, Moment now) const;

  // Walk visits the items in the order in which they leave, as they rank at one moment. No item may
  // be added or removed meanwhile.
  class Walk {
   public:
    Walk(WorthQueues* queues, Ranked ranked, Moment now);
    // Returns the next one; nullopt: all were visited.
    std::optional<Choice> Next();

   private:
    struct Cursor {
      uint32_t queue = 0;
      size_t rank = 0;  // Place of its bucket in the ranking of the class.
      Choice choice;
    };
    // Moves the cursor to the next item of its queue; false: there is none.
    bool Advance(Cursor* cursor) const;

    WorthQueues* const queues_;
    const Ranked ranked_;
    const Moment now_;
    std::vector<Cursor> cursors_;
  };

 private:
  using Items = absl::btree_map<PackedMoment, Item, EarlierMoment>;
  struct Queue {
    QueueId id;
    double factor = 1;  // Factor by which weight and cost multiply the worth of its class.
    Items items;
    // The item that was added last, which is not in `items` yet: it is the next to be removed most
    // often, as the parent of the next block that is put.
    std::optional<std::pair<PackedMoment, Item>> added;
    size_t place = 0;  // Place in `busy_` while the queue has items.
    // If `passed`: the buckets before `rank` of the ranking are empty until `enters`.
    bool passed = false;
    Moment enters = 0;
    // If `known`: `cheapest` is the cheapest item until `until`.
    bool known = false;
    bool open = false;  // Whether an item that is added now may become cheaper before `until`.
    // Latest time of a look since the buckets were passed: an item that was used before it may
    // become cheaper, too.
    Moment youngest = 0;
    size_t rank = 0;
    Moment cheapest = 0;
    Moment until = 0;
    uint64_t conclusion = 0;
  };
  // An item found by its bucket, and when the answer may change.
  struct Found {
    std::optional<std::pair<Moment, Item>> item;
    std::optional<Moment> enters;  // Time at which the next younger item comes into the bucket.
  };
  uint32_t LookUp(const QueueId& id);
  static bool IsEmpty(const Queue& queue) { return queue.items.empty() && !queue.added; }
  // Moves `added` into `items`. Code that reads `items` calls this first.
  static void Settle(Queue* queue);
  Found OldestIn(const Queue& queue, size_t bucket, Moment now) const;
  void LookForCheapest(Queue* queue, Moment now) const;
  bool IsKnown(const Queue& queue, Moment now) const;
  double WorthIn(const Queue& queue, size_t bucket) const {
    return hazards_->Worth(queue.id.of, bucket) * queue.factor;
  }
  // Returns the item of a queue that leaves first, with `item` not set. REQUIRES: the queue has
  // items.
  Choice FirstOf(Ranked ranked, Queue* queue, Moment now) const;

  const ReuseHazards* const hazards_;  // Not owned.
  std::vector<Queue> queues_;
  absl::flat_hash_map<QueueId, uint32_t> numbers_;
  uint32_t latest_ = 0;         // The queue that was asked for last.
  std::vector<uint32_t> busy_;  // Queues that have items.
  size_t size_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_WORTH_QUEUES_H_
