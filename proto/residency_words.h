// The residency table as it lies in shared memory: which blocks of one isolation domain are on
// this node, and in which tiers. The agent writes it, workers read it at the same time
// (docs/design/residency.md). LayoutDigest() is taken of this text, too.
//
// A table is words of 8 bytes, each read and written whole, as an atomic: a header page, then
// 2^log2 buckets of 16 words. The first word of a bucket counts the blocks that found no room in
// it; the others are entries.
#ifndef KVTIER_PROTO_RESIDENCY_WORDS_H_
#define KVTIER_PROTO_RESIDENCY_WORDS_H_

#include <cstddef>
#include <cstdint>

namespace kvtier::wire {

inline constexpr uint64_t kResidencyMagic = 0x5345'5252'4554'564b;  // The bytes "KVTERRES".
inline constexpr size_t kResidencyHeaderBytes = 4096;
inline constexpr size_t kBucketWords = 16;  // Two cache lines.
inline constexpr size_t kBucketEntries = kBucketWords - 1;
inline constexpr size_t kBucketBytes = kBucketWords * sizeof(uint64_t);
inline constexpr uint32_t kMinLog2Buckets = 5;  // A page.
inline constexpr uint32_t kMaxLog2Buckets = 40;

// Words of the header page.
inline constexpr size_t kMagicWord = 0;
inline constexpr size_t kLog2BucketsWord = 1;
// Word that is not 0, from then on for ever, once another table has taken this one's place and this
// one is no longer kept up to date. It lies apart from the others, because it is the only one that
// changes.
inline constexpr size_t kTableRetiredWord = 8;

// An entry: the upper 61 bits of a BlockKey's lower half, and a bit for each tier that has the
// block. An entry without a tier is 0, which is an empty word.
inline constexpr uint64_t kGpuBit = 1;
inline constexpr uint64_t kHostBit = 2;
inline constexpr uint64_t kDiskBit = 4;
inline constexpr uint64_t kTierBits = kGpuBit | kHostBit | kDiskBit;

constexpr uint64_t EntryTag(uint64_t block_key_low) { return block_key_low & ~kTierBits; }
// The bucket is the tag's top bits, so that bucket i of a table becomes the buckets 2i and 2i + 1
// of one of twice the size.
constexpr size_t BucketOf(uint64_t tag, uint32_t log2_buckets) {
  return static_cast<size_t>(tag >> (64 - log2_buckets));
}
// Returns the number of the bucket's first word, counted from the beginning of the table.
constexpr size_t FirstWordOf(size_t bucket) {
  return kResidencyHeaderBytes / sizeof(uint64_t) + bucket * kBucketWords;
}
constexpr uint64_t ResidencyBytes(uint32_t log2_buckets) {
  return kResidencyHeaderBytes + (uint64_t{kBucketBytes} << log2_buckets);
}

}  // namespace kvtier::wire

#endif  // KVTIER_PROTO_RESIDENCY_WORDS_H_
