// NumbersByKey finds the number of a node by its key: a hash table that is chained through the
// nodes, which are its user's. It grows by one bucket at a time, so an insertion costs the same at
// any size; a table that doubles would rehash ten million keys in one turn of the executor.
//
// NumbersByKey is not thread-safe and does not own the nodes. It takes a link of 4 bytes in each
// node and 2.7 bytes a node for buckets. Buckets are not freed when nodes leave.
#ifndef KVTIER_CORE_NUMBERS_BY_KEY_H_
#define KVTIER_CORE_NUMBERS_BY_KEY_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/hash/hash.h"
#include "core/block_key.h"
#include "core/check.h"
#include "core/linear_hashing.h"
#include "core/steady_vector.h"

namespace kvtier {

// A Node has `key` and `next`; the table uses `next` while the node is in the table.
template <typename Node>
class NumbersByKey {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  explicit NumbersByKey(SteadyVector<Node>* nodes) : nodes_(*nodes) { buckets_.Grow(); }

  size_t size() const { return size_; }
  // Returns the number of the node that has the key; kNone: there is none.
  uint32_t Find(const BlockKey& key) const {
    uint32_t number = BucketFor(key).first;
    while (number != kNone && !(nodes_[number].key == key)) number = nodes_[number].next;
    return number;
  }
  // REQUIRES: the node is not here, nor another that has its key.
  void Insert(uint32_t number) {
    if (2 * ++size_ > kNodesPerTwoBuckets * buckets_.size()) Split();
    Push(number);
  }
  // REQUIRES: the node is here.
  void Erase(uint32_t number) {
    uint32_t* link = &BucketFor(nodes_[number].key).first;
    while (*link != number) {
      KVT_CHECK(*link != kNone);
      link = &nodes_[*link].next;
    }
    *link = nodes_[number].next;
    --size_;
  }
  // Returns what the buckets take.
  size_t memory_bytes() const { return buckets_.memory_bytes(); }

 private:
  // Maximum number of nodes for two buckets. A hit then looks at 1.75 nodes on average, and a miss
  // at 1.5.
  static constexpr size_t kNodesPerTwoBuckets = 3;
  struct Bucket {
    uint32_t first = kNone;
  };

  const Bucket& BucketFor(const BlockKey& key) const {
    return buckets_[BucketOf(absl::HashOf(key), buckets_.size())];
  }
  Bucket& BucketFor(const BlockKey& key) {
    return buckets_[BucketOf(absl::HashOf(key), buckets_.size())];
  }
  void Push(uint32_t number) {
    nodes_[number].next = std::exchange(BucketFor(nodes_[number].key).first, number);
  }
  // Adds a bucket and takes the nodes over that belong there.
  void Split() {
    const size_t source = SourceOfNext(buckets_.size());
    buckets_.Grow();
    uint32_t number = std::exchange(buckets_[source].first, kNone);
    while (number != kNone) {
      const uint32_t next = nodes_[number].next;
      Push(number);
      number = next;
    }
  }

  SteadyVector<Node>& nodes_;
  SteadyVector<Bucket> buckets_;
  size_t size_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_NUMBERS_BY_KEY_H_
