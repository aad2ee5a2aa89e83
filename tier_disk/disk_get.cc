// Implements DiskTier::Get: read, prove that the record was not reclaimed during the read, verify.
#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/kill_point.h"
#include "core/log.h"
#include "tier_disk/disk_state.h"

namespace kvtier {
namespace {

// A record moves only when its segment is reclaimed; two moves during one read are rare.
constexpr int kMaxReadsPerGet = 3;

absl::Status NotHere(const BlockKey& key) {
  return absl::NotFoundError(absl::StrCat("block ", key.ToHex(), " is not on this disk"));
}

}  // namespace

Task<absl::StatusOr<PayloadSum>> DiskTier::State::ReadRecord(IoClass io_class, DiskEntry entry,
                                                             std::span<std::byte> slot) {
  const BlockKey& key = entry.block.key;
  std::optional<RecordCipher> cipher;
  if (entry.block.key_id != KeyId{}) {
    absl::StatusOr<RecordCipher> found = keys->CipherToOpen(entry.block.key_id);
    if (!found.ok()) {  // The block's tenant was erased just now.
      co_await DropDamaged(key, entry.place);
      co_return NotHere(key);
    }
    cipher = *std::move(found);
  }
  PagePool::Page header(&header_pages);
  const std::array<std::span<std::byte>, 2> buffers = {header.bytes(), slot};
  const DiskAddress address{.segment = entry.place.segment, .offset = entry.place.offset};
  const absl::Status read = co_await disk->Read(io_class, address, buffers);
  if (!read.ok() && !absl::IsResourceExhausted(read)) ++stats.io_errors;
  // Comes first: if the record was reclaimed meanwhile, the result of the read says nothing of the
  // disk.
  if (!index.IsAt(key, entry.place)) co_return NotHere(key);
  if (!read.ok()) co_return read;

  absl::StatusOr<PayloadSum> verdict;
  ByteThreads::Work verify = [&] {
    const auto page = header.bytes();
    const std::span<std::byte> payload = slot.first(entry.block.length);
    verdict =
        cipher ? OpenRecord(entry, *cipher, page, payload) : VerifyRecord(entry, page, payload);
    // The record's padding is not proven, so it is not returned.
    std::ranges::fill(slot.subspan(entry.block.length), std::byte{0});
  };
  Task<void> verified = byte_threads->Run(std::move(verify));
  co_await verified;
  if (verdict.ok()) {
    ++stats.verified;
    co_return verdict;
  }
  ++stats.verify_failures;
  // Logs the 1st, 2nd, 4th, 8th ...: a rotten disk must not flood the log.
  if (std::has_single_bit(stats.verify_failures)) {
    Log(LogLevel::kWarning, absl::StrCat("disk: dropped a damaged record, ", stats.verify_failures,
                                         " so far: ", verdict.status().message()));
  }
  co_await DropDamaged(key, entry.place);
  co_return verdict;
}

Task<void> DiskTier::State::DropDamaged(const BlockKey& key, const RecordPlace& place) {
  if (!index.IsAt(key, place)) co_return;
  KVT_KILL_POINT("damaged.found");
  Unpublish(key);
  KVT_KILL_POINT("damaged.unpublished");
  ManifestBatch batch;
  batch.erases.push_back(key);
  // If this fails, the entry is back after a restart and fails its verification again.
  (co_await commits.Commit(std::move(batch))).IgnoreError();
  KVT_KILL_POINT("damaged.committed");
}

Task<absl::StatusOr<BlockMeta>> DiskTier::State::ReadNewest(IoClass io_class, BlockKey key,
                                                            std::span<std::byte> slot) {
  for (int reads = 0; reads < kMaxReadsPerGet; ++reads) {
    const std::optional<DiskEntry> entry = index.Find(key);
    if (!entry.has_value()) break;
    const DiskBlock& block = entry->block;
    // The length may differ: the block was deleted and put again since the slot was reserved.
    if (slot.size() != SlotBytes(block.length)) break;
    const absl::StatusOr<PayloadSum> sum = co_await ReadRecord(io_class, *entry, slot);
    if (sum.ok()) {
      co_return BlockMeta{.key = key,
                          .parent = block.parent,
                          .space = block.space,
                          .length = block.length,
                          .sum = *sum};
    }
    if (!absl::IsNotFound(sum.status())) co_return sum.status();
  }
  co_return NotHere(key);
}

Task<absl::StatusOr<BlockMeta>> DiskTier::Get(BlockKey key, std::span<std::byte> slot,
                                              IoClass io_class) {
  State& state = *state_;
  KVT_CHECK(state.log.has_value());
  if (state.gets_in_flight >= kMaxDiskGetsInFlight) {
    ++state.stats.declined;
    co_return absl::ResourceExhaustedError(
        absl::StrCat(kMaxDiskGetsInFlight, " disk gets are in flight"));
  }
  const absl::Time started = state.executor->Now();
  ++state.gets_in_flight;
  absl::StatusOr<BlockMeta> got = co_await state.ReadNewest(io_class, key, slot);
  --state.gets_in_flight;
  if (!got.ok()) {
    ++state.stats.misses;
    co_return got;
  }
  ++state.stats.hits;
  state.stats.bytes_out += got->length;
  state.stats.read_latency.Record(state.executor->Now() - started);
  state.index.Touch(key);
  co_return got;
}

void DiskTier::MoveToForeground(const BlockKey& key) {
  const std::optional<DiskEntry> entry = state_->index.Find(key);
  if (!entry) return;
  state_->disk->MoveToForeground({.segment = entry->place.segment, .offset = entry->place.offset},
                                 RecordBytes(entry->block.length));
}

}  // namespace kvtier
