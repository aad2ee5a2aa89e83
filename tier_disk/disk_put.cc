// Implements DiskTier::Put: data, then manifest, then index (law 2).
#include <algorithm>
#include <array>
#include <coroutine>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/kill_point.h"
#include "core/status_macros.h"
#include "tier_disk/disk_state.h"
#include "tier_disk/io/page_buffer.h"

namespace kvtier {
namespace {

// Maximum number of times that one put makes room before it is declined: other puts may take the
// room that a reclaim freed.
constexpr int kMaxReclaimsPerPut = 4;

}  // namespace

Task<absl::Status> DiskTier::State::WriteData(IoClass io_class, const RecordHeader& header,
                                              std::span<const std::byte> slot) {
  PagePool::Page page(&header_pages);
  EncodeRecordHeader(header, page.bytes());
  KVT_KILL_POINT("record.header_encoded");
  const std::array<std::span<const std::byte>, 2> buffers = {page.bytes(), slot};
  const DiskAddress address{.segment = header.place.segment, .offset = header.place.offset};
  const absl::Status written = co_await disk->Write(io_class, address, buffers);
  KVT_KILL_POINT("record.written");
  if (!written.ok() && !absl::IsResourceExhausted(written)) ++stats.io_errors;
  co_return written;
}

Task<absl::Status> DiskTier::State::WriteRecord(const DiskEntry& entry, const RecordHeader& header,
                                                std::span<const std::byte> slot) {
  KVT_CO_RETURN_IF_ERROR(co_await WriteData(IoClass::kOffload, header, slot));
  KVT_KILL_POINT("put.before_commit");
  ManifestBatch batch;
  batch.puts.push_back(entry);
  co_return co_await commits.Commit(std::move(batch));
}

Task<absl::Status> DiskTier::State::WriteSealed(const DiskEntry& entry, const RecordCipher& cipher,
                                                const PayloadSum& sum,
                                                std::span<const std::byte> slot) {
  PageBuffer sealed(entry.block.length);
  absl::StatusOr<RecordHeader> header;
  // The payload is copied before it is verified, because others may write the slot, and the
  // verified bytes must be the sealed bytes.
  ByteThreads::Work seal = [&] {
    const std::span<const std::byte> payload = slot.first(entry.block.length);
    std::copy(payload.begin(), payload.end(), sealed.bytes().begin());
    header = SealRecord(entry, cipher, &sum, sealed.bytes());
  };
  Task<void> done = byte_threads->Run(std::move(seal));
  co_await done;
  if (!header.ok()) co_return header.status();
  co_return co_await WriteRecord(entry, *header, sealed.bytes());
}

Task<absl::StatusOr<RecordPlace>> DiskTier::State::ReservePlace(uint64_t record_bytes) {
  for (int reclaims = 0;; ++reclaims) {
    const std::optional<RecordPlace> place = log->Reserve(record_bytes, SegmentLog::Use::kPut);
    ReclaimAhead();
    if (place) co_return *place;
    if (reclaims == kMaxReclaimsPerPut) {
      co_return absl::ResourceExhaustedError("no segment could be freed for the record");
    }
    KVT_CO_RETURN_IF_ERROR(co_await MakeRoom(record_bytes));
  }
}

Task<absl::Status> DiskTier::State::PutNew(const BlockMeta& meta, std::span<const std::byte> slot,
                                           const std::string& tenant) {
  const absl::Time started = executor->Now();
  std::optional<RecordCipher> cipher;
  if (keys != nullptr) {
    absl::StatusOr<RecordCipher> found = co_await CipherToPut(tenant);
    if (!found.ok()) co_return found.status();
    cipher = *std::move(found);
  }
  const TenantTag owner = TenantTagOf(tenant);
  if (BeyondMaximum(owner) > 0) KVT_CO_RETURN_IF_ERROR(co_await DropForMaximum(owner));
  shares.NoteWrite(owner, RecordBytes(meta.length));
  const absl::StatusOr<RecordPlace> place = co_await ReservePlace(RecordBytes(meta.length));
  if (!place.ok()) co_return place.status();
  KVT_KILL_POINT("put.reserved");
  const KeyId key_id = cipher ? cipher->key_id() : KeyId{};
  const DiskEntry entry{.block = DiskBlockOf(meta, owner, key_id), .place = *place};
  absl::Status durable;
  if (cipher) {
    durable = co_await WriteSealed(entry, *cipher, meta.sum, slot);
  } else {
    const RecordHeader header = HeaderOf(entry, meta.sum);
    durable = co_await WriteRecord(entry, header, slot);
  }
  KVT_KILL_POINT("put.committed");
  if (durable.ok() && !Opens(entry.block)) {
    ManifestBatch batch;
    batch.erases.push_back(meta.key);
    // If this fails, the row is dropped at the next start because its key is missing.
    (co_await commits.Commit(std::move(batch))).IgnoreError();
    durable = absl::AbortedError(absl::StrCat("tenant '", tenant, "' was erased meanwhile"));
  }
  // If the write failed, the record's room is lost until its segment is reclaimed.
  if (durable.ok()) Publish(entry);
  KVT_KILL_POINT("put.published");
  EndWrite(*place);
  KVT_CO_RETURN_IF_ERROR(durable);
  ++stats.inserts;
  stats.bytes_in += meta.length;
  stats.write_latency.Record(executor->Now() - started);
  co_return absl::OkStatus();
}

Task<absl::Status> DiskTier::State::Prove(BlockKey key) {
  Scrub::Outcome outcome = Scrub::Outcome::kGone;
  if (const std::optional<DiskEntry> entry = index.Find(key)) {
    PageBuffer buffer(entry->block.length);
    outcome = co_await ScrubRecord(IoClass::kOffload, *entry, buffer.bytes());
  }
  if (outcome == Scrub::Outcome::kVerified) co_return absl::OkStatus();
  if (outcome == Scrub::Outcome::kBusy) {
    co_return absl::ResourceExhaustedError("the disk's queue has no room to prove the block");
  }
  if (outcome == Scrub::Outcome::kUnreadable) {
    // The same sectors may be unreadable for ever, and the caller has the block.
    if (const std::optional<DiskEntry> entry = index.Find(key)) {
      co_await DropDamaged(key, entry->place);
    }
  }
  co_return absl::DataLossError(absl::StrCat("block ", key.ToHex(), " was damaged on this disk"));
}

absl::Status DiskTier::State::Accepts(const DiskBlock& block) const {
  if (RecordBytes(block.length) > disk->segment_bytes()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "block ", block.key.ToHex(), " of ", block.length, " bytes does not fit into a segment"));
  }
  const size_t most = keys == nullptr ? kMaxDiskPutsInFlight : kMaxSealedPutsInFlight;
  if (putting.size() >= most) {
    return absl::ResourceExhaustedError(absl::StrCat(most, " disk puts are in flight"));
  }
  KVT_RETURN_IF_ERROR(manifest->HasRoom());
  if (!index.Fits(block)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the disk holds blocks of ", ShapeTable::kMaxShapes, " different shapes"));
  }
  return absl::OkStatus();
}

Task<absl::Status> DiskTier::Put(BlockMeta meta, std::span<const std::byte> slot,
                                 std::string tenant) {
  State& state = *state_;
  KVT_CHECK(state.log.has_value());
  KVT_CHECK(meta.length > 0 && slot.size() == SlotBytes(meta.length));
  while (true) {
    const auto putting = state.putting.find(meta.key);
    if (putting != state.putting.end()) {
      const std::shared_ptr<SharedOutcome> outcome = putting->second;
      KVT_KILL_POINT("put.joined_put");
      co_await outcome->done.WaitUntil(absl::InfiniteFuture());
      KVT_CO_RETURN_IF_ERROR(outcome->status);
      if (state.index.Contains(meta.key)) co_return absl::OkStatus();
    } else if (state.index.Contains(meta.key)) {
      const absl::Status proven = co_await state.Prove(meta.key);
      if (!absl::IsDataLoss(proven)) co_return proven;
    } else {
      break;
    }
  }
  const DiskBlock block = DiskBlockOf(meta, TenantTagOf(tenant));
  if (absl::Status accepts = state.Accepts(block); !accepts.ok()) {
    ++state.stats.declined;
    co_return accepts;
  }
  const auto outcome = std::make_shared<SharedOutcome>(state.executor);
  state.putting.emplace(meta.key, outcome);
  state.arriving[block.owner] += RecordBytes(meta.length);
  outcome->status = co_await state.PutNew(meta, slot, tenant);
  KVT_KILL_POINT("put.done");
  const auto arrived = state.arriving.find(block.owner);
  if ((arrived->second -= RecordBytes(meta.length)) == 0) state.arriving.erase(arrived);
  state.putting.erase(meta.key);
  if (absl::IsResourceExhausted(outcome->status)) ++state.stats.declined;
  outcome->done.Set();
  co_return outcome->status;
}

}  // namespace kvtier
