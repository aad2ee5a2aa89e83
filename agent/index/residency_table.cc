#include "agent/index/residency_table.h"

#include <atomic>

#include "absl/container/flat_hash_set.h"
#include "absl/memory/memory.h"
#include "core/check.h"
#include "core/kill_point.h"
#include "core/space.h"
#include "core/status_macros.h"
#include "proto/residency_words.h"

namespace kvtier {
namespace {

using wire::EntryTag;
using wire::kBucketEntries;
using wire::kTierBits;

constexpr uint64_t BitOf(Tier tier) { return uint64_t{1} << TierIndex(tier); }
static_assert(BitOf(Tier::kGpu) == wire::kGpuBit && BitOf(Tier::kHost) == wire::kHostBit &&
              BitOf(Tier::kDisk) == wire::kDiskBit);

}  // namespace

absl::StatusOr<std::unique_ptr<ResidencyTable>> ResidencyTable::Create(const std::string& name,
                                                                       uint32_t log2_buckets) {
  KVT_CHECK(log2_buckets >= wire::kMinLog2Buckets && log2_buckets <= wire::kMaxLog2Buckets);
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<SealedMemory> memory,
                       SealedMemory::Create(name, wire::ResidencyBytes(log2_buckets)));
  KVT_RETURN_IF_ERROR(memory->Populate(0, wire::kResidencyHeaderBytes));
  auto table = absl::WrapUnique(new ResidencyTable(std::move(memory), log2_buckets));
  table->Store(wire::kLog2BucketsWord, log2_buckets);
  table->Store(wire::kMagicWord, wire::kResidencyMagic);
  return table;
}

ResidencyTable::Range ResidencyTable::RangeOf(size_t first, size_t count) const {
  const uint64_t begin = wire::FirstWordOf(first) * sizeof(uint64_t);
  const uint64_t end = wire::FirstWordOf(first + count) * sizeof(uint64_t);
  const uint64_t offset = begin / kBlockAlignment * kBlockAlignment;
  // A table is whole pages, so that this ends inside.
  return {.offset = offset, .length = SlotBytes(end - offset)};
}

absl::Status ResidencyTable::Populate(size_t first, size_t count) {
  const Range range = RangeOf(first, count);
  return memory_->Populate(range.offset, range.length);
}

void ResidencyTable::Release(size_t first, size_t count) {
  KVT_CHECK(Load(wire::kTableRetiredWord) != 0);
  const Range range = RangeOf(first, count);
  memory_->Release(range.offset, range.length);
}

inline uint64_t ResidencyTable::Load(size_t word) const {
  uint64_t* const words = reinterpret_cast<uint64_t*>(memory_->bytes().data());
  // Relaxed: nobody else writes.
  return std::atomic_ref<uint64_t>(words[word]).load(std::memory_order_relaxed);
}

void ResidencyTable::Store(size_t word, uint64_t value) {
  uint64_t* const words = reinterpret_cast<uint64_t*>(memory_->bytes().data());
  // Pairs with the acquires of ResidencyView.
  std::atomic_ref<uint64_t>(words[word]).store(value, std::memory_order_release);
}

size_t ResidencyTable::bucket_of(const BlockKey& key) const {
  return wire::BucketOf(EntryTag(key.lo), log2_buckets_);
}

size_t ResidencyTable::FindEntry(size_t bucket, uint64_t tag) const {
  const size_t first = wire::FirstWordOf(bucket) + 1;
  for (size_t word = first; word < first + kBucketEntries; ++word) {
    const uint64_t entry = Load(word);
    if (entry != 0 && EntryTag(entry) == tag) return word;
  }
  return 0;
}

size_t ResidencyTable::FindFree(size_t bucket) const {
  const size_t first = wire::FirstWordOf(bucket) + 1;
  for (size_t word = first; word < first + kBucketEntries; ++word) {
    if (Load(word) == 0) return word;
  }
  return 0;
}

void ResidencyTable::Insert(uint64_t entry) {
  const uint64_t tag = EntryTag(entry);
  const size_t bucket = wire::BucketOf(tag, log2_buckets_);
  ++blocks_;
  for (const Tier tier : kAllTiers) {
    if ((entry & BitOf(tier)) != 0) ++blocks_in_[TierIndex(tier)];
  }
  if (const size_t word = FindFree(bucket); word != 0) {
    Store(word, entry);
    KVT_KILL_POINT("residency.word_written");
    return;
  }
  overflowed_.emplace(tag, entry & kTierBits);
  const size_t count = wire::FirstWordOf(bucket);
  Store(count, Load(count) + 1);
  KVT_KILL_POINT("residency.overflow_counted");
}

void ResidencyTable::Free(size_t bucket, size_t word) {
  const size_t count = wire::FirstWordOf(bucket);
  if (Load(count) == 0) {
    Store(word, 0);
    KVT_KILL_POINT("residency.word_freed");
    return;
  }
  // The first of the bucket: its tag has the bucket as its top bits.
  const auto overflowed =
      overflowed_.lower_bound(static_cast<uint64_t>(bucket) << (64 - log2_buckets_));
  KVT_CHECK(overflowed != overflowed_.end() &&
            wire::BucketOf(overflowed->first, log2_buckets_) == bucket);
  // The order matters: a reader that no longer sees the block counted sees it in the word.
  Store(word, overflowed->first | overflowed->second);
  KVT_KILL_POINT("residency.word_reused");
  Store(count, Load(count) - 1);
  KVT_KILL_POINT("residency.overflow_uncounted");
  overflowed_.erase(overflowed);
}

void ResidencyTable::Add(const BlockKey& key, Tier tier) {
  const uint64_t tag = EntryTag(key.lo);
  const size_t bucket = bucket_of(key);
  if (const size_t word = FindEntry(bucket, tag); word != 0) {
    const uint64_t entry = Load(word);
    if ((entry & BitOf(tier)) != 0) return;
    Store(word, entry | BitOf(tier));
    KVT_KILL_POINT("residency.word_changed");
    ++blocks_in_[TierIndex(tier)];
    return;
  }
  if (const auto found = overflowed_.find(tag); found != overflowed_.end()) {
    if ((found->second & BitOf(tier)) != 0) return;
    found->second |= BitOf(tier);
    ++blocks_in_[TierIndex(tier)];
    return;
  }
  Insert(tag | BitOf(tier));
}

void ResidencyTable::PrefetchCacheLines(const BlockKey& key) const {
  const std::byte* const bytes = memory_->bytes().data();
  __builtin_prefetch(bytes + wire::FirstWordOf(bucket_of(key)) * sizeof(uint64_t), 1);
}

void ResidencyTable::Remove(const BlockKey& key, Tier tier) {
  const uint64_t tag = EntryTag(key.lo);
  const size_t bucket = bucket_of(key);
  if (const size_t word = FindEntry(bucket, tag); word != 0) {
    const uint64_t before = Load(word);
    if ((before & BitOf(tier)) == 0) return;
    --blocks_in_[TierIndex(tier)];
    const uint64_t entry = before & ~BitOf(tier);
    if ((entry & kTierBits) != 0) {
      Store(word, entry);
      return;
    }
    Free(bucket, word);
    --blocks_;
    return;
  }
  const auto found = overflowed_.find(tag);
  if (found == overflowed_.end() || (found->second & BitOf(tier)) == 0) return;
  --blocks_in_[TierIndex(tier)];
  found->second &= ~BitOf(tier);
  if (found->second != 0) return;
  overflowed_.erase(found);
  const size_t count = wire::FirstWordOf(bucket);
  Store(count, Load(count) - 1);
  --blocks_;
}

void ResidencyTable::TakeOver(const ResidencyTable& smaller, size_t bucket) {
  KVT_CHECK(smaller.log2_buckets_ + 1 == log2_buckets_);
  const size_t first = wire::FirstWordOf(bucket) + 1;
  for (size_t word = first; word < first + kBucketEntries; ++word) {
    if (const uint64_t entry = smaller.Load(word); entry != 0) Insert(entry);
  }
  auto overflowed = smaller.overflowed_.lower_bound(static_cast<uint64_t>(bucket)
                                                    << (64 - smaller.log2_buckets_));
  for (; overflowed != smaller.overflowed_.end() &&
         wire::BucketOf(overflowed->first, smaller.log2_buckets_) == bucket;
       ++overflowed) {
    Insert(overflowed->first | overflowed->second);
  }
}

void ResidencyTable::Retire() { Store(wire::kTableRetiredWord, 1); }

bool ResidencyTable::Has(const BlockKey& key, Tier tier) const {
  const uint64_t tag = EntryTag(key.lo);
  if (const size_t word = FindEntry(bucket_of(key), tag); word != 0) {
    return (Load(word) & BitOf(tier)) != 0;
  }
  const auto found = overflowed_.find(tag);
  return found != overflowed_.end() && (found->second & BitOf(tier)) != 0;
}

size_t ResidencyTable::CountBlocks(size_t buckets) const {
  size_t count = 0;
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    const size_t first = wire::FirstWordOf(bucket);
    count += Load(first);
    for (size_t word = first + 1; word <= first + kBucketEntries; ++word) {
      count += Load(word) != 0 ? 1 : 0;
    }
  }
  return count;
}

void ResidencyTable::Audit() const {
  absl::flat_hash_set<uint64_t> seen;
  std::array<size_t, kTierCount> in{};
  const auto count = [&in](uint64_t entry) {
    for (const Tier tier : kAllTiers) in[TierIndex(tier)] += (entry & BitOf(tier)) != 0 ? 1 : 0;
  };
  auto overflowed = overflowed_.begin();
  for (size_t bucket = 0; bucket < buckets(); ++bucket) {
    const size_t first = wire::FirstWordOf(bucket);
    size_t free = 0;
    for (size_t word = first + 1; word <= first + kBucketEntries; ++word) {
      const uint64_t entry = Load(word);
      free += entry == 0 ? 1 : 0;
      if (entry == 0) continue;
      KVT_CHECK((entry & kTierBits) != 0);
      KVT_CHECK(wire::BucketOf(entry, log2_buckets_) == bucket);
      KVT_CHECK(seen.insert(EntryTag(entry)).second);
      count(entry);
    }
    uint64_t counted = 0;
    for (; overflowed != overflowed_.end() &&
           wire::BucketOf(overflowed->first, log2_buckets_) == bucket;
         ++overflowed) {
      KVT_CHECK(overflowed->second != 0 && seen.insert(overflowed->first).second);
      count(overflowed->second);
      ++counted;
    }
    KVT_CHECK(Load(first) == counted && (counted == 0 || free == 0));
  }
  KVT_CHECK(seen.size() == blocks_ && overflowed == overflowed_.end() && in == blocks_in_);
}

}  // namespace kvtier
