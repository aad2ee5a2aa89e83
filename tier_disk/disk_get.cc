// DiskTier::Get: read, prove that the record was not reclaimed under the read, verify.
#include <array>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "tier_disk/disk_state.h"
#include "tier_disk/page_buffer.h"

namespace kvtier {
namespace {

// A record moves only when its segment is reclaimed; twice under one read is rare.
constexpr int kMaxReadsPerGet = 3;

absl::Status NotHere(const BlockKey& key) {
  return absl::NotFoundError(absl::StrCat("block ", key.ToHex(), " is not on this disk"));
}

}  // namespace

Task<absl::Status> DiskTier::State::ReadRecord(const DiskBlock& block, const RecordPlace& place,
                                               std::span<std::byte> slot) {
  PageBuffer header(kRecordHeaderBytes);
  const std::array<std::span<std::byte>, 2> buffers = {header.bytes(), slot};
  const DiskAddress address{.segment = place.segment, .offset = place.offset};
  const absl::Status read = co_await disk->Read(address, buffers);
  if (!read.ok() && !absl::IsResourceExhausted(read)) ++stats.io_errors;
  // First of all: a record that left meanwhile proves nothing about the disk.
  if (!index.IsAt(block.key, place)) co_return NotHere(block.key);
  KVT_CO_RETURN_IF_ERROR(read);

  absl::Status verdict;
  ByteWorkers::Work verify = [&] {
    verdict = VerifyRecord(RecordAt(block, place), header.bytes().first<kRecordHeaderBytes>(),
                           slot.first(block.length));
  };
  Task<void> verified = workers->Run(std::move(verify));
  co_await verified;
  if (verdict.ok()) {
    ++stats.verified;
    co_return verdict;
  }
  ++stats.verify_failures;
  // The 1st, 2nd, 4th, 8th ...: a rotten disk must not bury the log as well.
  if (std::has_single_bit(stats.verify_failures)) {
    Log(LogLevel::kWarning, absl::StrCat("disk: dropped a damaged record, ", stats.verify_failures,
                                         " so far: ", verdict.message()));
  }
  co_await DropDamaged(block.key, place);
  co_return verdict;
}

Task<void> DiskTier::State::DropDamaged(const BlockKey& key, const RecordPlace& place) {
  if (!index.IsAt(key, place)) co_return;
  on_drop(key);
  index.Erase(key);
  ManifestBatch batch;
  batch.erases.push_back(key);
  // Should it fail, the entry is back after a restart and fails its verification again.
  (co_await commits.Commit(std::move(batch))).IgnoreError();
}

Task<absl::Status> DiskTier::Get(const BlockKey& key, std::span<std::byte> slot) {
  State& state = *state_;
  KVT_CHECK(state.log.has_value());
  if (state.gets_in_flight >= kMaxDiskGetsInFlight) {
    ++state.stats.declined;
    co_return absl::ResourceExhaustedError(
        absl::StrCat(kMaxDiskGetsInFlight, " disk gets are in flight"));
  }
  const absl::Time started = state.executor->Now();
  ++state.gets_in_flight;
  absl::Status status = NotHere(key);
  for (int reads = 0; reads < kMaxReadsPerGet && absl::IsNotFound(status); ++reads) {
    const RecordIndex::Entry* entry = state.index.Find(key);
    if (entry == nullptr) break;
    const DiskBlock block = entry->block;
    const RecordPlace place = entry->place;
    KVT_CHECK(slot.size() == SlotBytes(block.length));
    status = co_await state.ReadRecord(block, place, slot);
    if (status.ok()) state.stats.bytes_out += block.length;
  }
  --state.gets_in_flight;
  if (status.ok()) {
    ++state.stats.hits;
    state.stats.read_latency.Record(state.executor->Now() - started);
  } else {
    ++state.stats.misses;
  }
  co_return status;
}

}  // namespace kvtier
