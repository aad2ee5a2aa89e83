// ResidencyTable is one table of proto/residency_words.h, as its only writer sees it. Workers read
// the same words at any moment, so that each change is one store of a word that says something
// true, or a few in an order that never hides a block.
//
// Executor thread only. It does not know of growth: Residency moves blocks to a larger one.
// Invariants, checked by Audit(): no block is in it twice; a bucket's first word is the number of
// its overflowed blocks; a bucket with overflowed blocks has no free entry.
#ifndef KVTIER_AGENT_INDEX_RESIDENCY_TABLE_H_
#define KVTIER_AGENT_INDEX_RESIDENCY_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/block_key.h"
#include "core/tier.h"
#include "tier_host/sealed_memory.h"

namespace kvtier {

class ResidencyTable {
 public:
  // Makes an empty table of 2^log2_buckets buckets. `name` shows in /proc/PID/maps. Populate()
  // takes its memory. Errors: kResourceExhausted, with errno's text.
  static absl::StatusOr<std::unique_ptr<ResidencyTable>> Create(const std::string& name,
                                                                uint32_t log2_buckets);

  // Takes the memory of `count` buckets from `first` on, before they are written to. Errors:
  // kResourceExhausted, with errno's text.
  absl::Status Populate(size_t first, size_t count);

  // Add() notes that the tier has the block, Remove() that it no longer has it. A change that is
  // made already has no effect. REQUIRES: the memory of the block's bucket was taken.
  void Add(const BlockKey& key, Tier tier);
  void Remove(const BlockKey& key, Tier tier);
  // Prefetches the cache lines that Add() of the block reads.
  void PrefetchCacheLines(const BlockKey& key) const;
  // Puts all blocks of bucket `bucket` of `smaller`, a table of half as many buckets, into their
  // two buckets here. REQUIRES: these are empty, and their memory was taken.
  void TakeOver(const ResidencyTable& smaller, size_t bucket);
  // Tells readers that this table is not kept up to date any more.
  void Retire();
  // Gives the memory of `count` buckets from `first` on back, also where workers map it still.
  // REQUIRES: the table is retired.
  void Release(size_t first, size_t count);

  bool Has(const BlockKey& key, Tier tier) const;
  uint32_t log2_buckets() const { return log2_buckets_; }
  size_t buckets() const { return size_t{1} << log2_buckets_; }
  size_t bucket_of(const BlockKey& key) const;
  size_t blocks() const { return blocks_; }
  size_t blocks_in(Tier tier) const { return blocks_in_[TierIndex(tier)]; }
  size_t overflowed() const { return overflowed_.size(); }
  const SealedMemory& memory() const { return *memory_; }
  // Counts the blocks of the leading `buckets` buckets. O(buckets).
  size_t CountBlocks(size_t buckets) const;
  void Audit() const;

 private:
  ResidencyTable(std::unique_ptr<SealedMemory> memory, uint32_t log2_buckets)
      : memory_(std::move(memory)), log2_buckets_(log2_buckets) {}
  // Bytes of the buckets, in whole pages.
  struct Range {
    uint64_t offset = 0;
    uint64_t length = 0;
  };
  Range RangeOf(size_t first, size_t count) const;
  uint64_t Load(size_t word) const;
  // Writes a word. Everything that a reader reads after it has seen the new value is as new as this
  // write, or newer.
  void Store(size_t word, uint64_t value);
  // Returns the word of the block's entry, or of the first free one; 0: neither is there.
  size_t FindEntry(size_t bucket, uint64_t tag) const;
  size_t FindFree(size_t bucket) const;
  // Inserts a block that is not here yet. `entry`: its tag and tiers.
  void Insert(uint64_t entry);
  // Frees the entry in `word`, which has no tier any more: an overflowed block of the bucket gets
  // the word.
  void Free(size_t bucket, size_t word);

  const std::unique_ptr<SealedMemory> memory_;
  const uint32_t log2_buckets_;
  size_t blocks_ = 0;
  std::array<size_t, kTierCount> blocks_in_{};
  // Blocks that found no room in their bucket: tiers by tag, so that those of a bucket are
  // neighbours.
  absl::btree_map<uint64_t, uint64_t> overflowed_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_RESIDENCY_TABLE_H_
