#include "client/residency_view.h"

#include <atomic>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/residency_words.h"

namespace kvtier {
namespace {

uint64_t Load(const uint64_t& word) {
  // A lock-free load does not write, so the memory may be read-only. Acquire: pairs with the
  // releases of ResidencyTable.
  static_assert(std::atomic_ref<uint64_t>::is_always_lock_free);
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
}

Residence NearestOf(uint64_t entry) {
  if ((entry & wire::kGpuBit) != 0) return Residence::kGpu;
  return (entry & wire::kHostBit) != 0 ? Residence::kHost : Residence::kDisk;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ResidencyView>> ResidencyView::Open(
    std::shared_ptr<const Mapping> mapping) {
  const size_t bytes = mapping->size();
  const std::optional<std::span<const std::byte>> all = mapping->Read(0, bytes);
  if (bytes < wire::kResidencyHeaderBytes) {
    return absl::FailedPreconditionError(absl::StrCat("the agent says its residency table has ",
                                                      bytes, " bytes, fewer than its header"));
  }
  const std::span<const uint64_t> words(reinterpret_cast<const uint64_t*>(all->data()),
                                        bytes / sizeof(uint64_t));
  const uint64_t magic = Load(words[wire::kMagicWord]);
  const uint64_t log2_buckets = Load(words[wire::kLog2BucketsWord]);
  if (magic != wire::kResidencyMagic || log2_buckets < wire::kMinLog2Buckets ||
      log2_buckets > wire::kMaxLog2Buckets ||
      bytes != wire::ResidencyBytes(static_cast<uint32_t>(log2_buckets))) {
    return absl::FailedPreconditionError(absl::StrCat("the agent's residency table has magic 0x",
                                                      absl::Hex(magic), " and 2^", log2_buckets,
                                                      " buckets in ", bytes, " bytes"));
  }
  return std::shared_ptr<const ResidencyView>(
      new ResidencyView(std::move(mapping), words, static_cast<uint32_t>(log2_buckets)));
}

void ResidencyView::PrefetchCacheLines(const BlockKey& key) const {
  const size_t bucket = wire::BucketOf(wire::EntryTag(key.lo), log2_buckets_);
  const uint64_t* const first = &words_[wire::FirstWordOf(bucket)];
  __builtin_prefetch(first);
  __builtin_prefetch(first + wire::kBucketWords / 2);
}

Residence ResidencyView::Look(const BlockKey& key) const {
  const uint64_t tag = wire::EntryTag(key.lo);
  const std::span<const uint64_t> bucket =
      words_.subspan(wire::FirstWordOf(wire::BucketOf(tag, log2_buckets_)), wire::kBucketWords);
  // Loaded before the entries: a block that moves from the overflowed ones to an entry meanwhile is
  // then seen in the count, in the entry, or in both.
  const uint64_t overflowed = Load(bucket[0]);
  for (const uint64_t& word : bucket.subspan(1)) {
    const uint64_t entry = Load(word);
    if (wire::EntryTag(entry) == tag && entry != 0) return NearestOf(entry);
  }
  return overflowed == 0 ? Residence::kAbsent : Residence::kPerhaps;
}

bool ResidencyView::retired() const { return Load(words_[wire::kTableRetiredWord]) != 0; }

}  // namespace kvtier
