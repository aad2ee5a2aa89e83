#include "agent/disk/disk_load.h"

#include <optional>
#include <utility>

#include "agent/limits.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// References to a load that no call waits for: the table's own and the one in Pump().
constexpr long kOwnReferences = 2;

}  // namespace

SharedLoad DiskLoader::Start(const QueuedLoad& wanted) {
  if (!queue_shares_.MayTake(wanted.payer())) {
    ++parts_.stats->host.declined;
    queue_shares_.CountRefused(wanted.payer());
    return nullptr;
  }
  SharedLoad load = parts_.loads->Start(wanted.key, Tier::kDisk);
  load->awaited = wanted.urgency == Urgency::kForeground;
  QueuedLoad queued = wanted;
  if (const std::optional<DiskBlock> block = parts_.disks->Find(wanted.key)) {
    queued.bytes = DiskSet::BytesOnDisk(block->length);
  }
  queue_shares_.Take(wanted.payer());
  queue_.Push(queued);
  Pump();
  return load;
}

void DiskLoader::MoveToForeground(const BlockKey& key) {
  if (!queue_.MoveToForeground(key)) parts_.disks->MoveToForeground(key);
}

void DiskLoader::Pump() {
  if (pumping_) return;
  pumping_ = true;
  while (running_ < kMaxLoadsRunning + parts_.disks->stuck().gets && !queue_.empty()) {
    const QueuedLoad next = queue_.Pop();
    queue_shares_.GiveBack(next.payer());
    const SharedLoad load = parts_.loads->Find(next.key);
    if (!next.wanted_anyway && load.use_count() == kOwnReferences) {
      parts_.loads->Finish(
          next.key,
          absl::CancelledError(
              "the block was not loaded from disk: the deadlines of all calls for it passed"));
      continue;
    }
    ++running_;
    parts_.scope->Spawn(Run(next));
  }
  pumping_ = false;
}

Task<void> DiskLoader::Run(QueuedLoad queued) {
  const absl::Status status = co_await LoadOne(queued);
  parts_.loads->Finish(queued.key, status);
  --running_;
  Pump();
}

Task<absl::Status> DiskLoader::LoadOne(QueuedLoad queued) {
  const std::optional<DiskBlock> block = parts_.disks->Find(queued.key);
  if (!block.has_value()) {
    co_return absl::NotFoundError("the block was dropped from the disk before it was loaded");
  }
  const BlockRoom room = parts_.evictor->RoomFor(queued.domain, queued.lengths, block->length);
  KVT_CO_ASSIGN_OR_RETURN(HostSlot slot, parts_.evictor->ReserveHost(queued.domain, room));
  const uint64_t erasures = parts_.index->erasures(queued.domain);
  const IoClass io_class =
      queued.urgency == Urgency::kForeground ? IoClass::kForeground : IoClass::kPrefetch;
  KVT_CO_ASSIGN_OR_RETURN(const BlockMeta meta,
                          co_await parts_.disks->Get(queued.key, slot.bytes(), io_class));
  // The disk may still read what it has forgotten.
  if (parts_.index->erasures(queued.domain) != erasures) {
    co_return absl::AbortedError(
        "the block's tenant was erased while the block was loaded from disk");
  }
  if (parts_.index->In(Tier::kHost, queued.key)) co_return absl::OkStatus();  // A put came first.
  const Arrival arrival =
      parts_.loads->IsAwaited(queued.key) ? Arrival::kAskedFor : Arrival::kPrefetched;
  parts_.index->PublishHost(meta, std::move(slot), arrival, queued.hint, parts_.index->Now());
  ++parts_.stats->host.inserts;
  parts_.stats->host.bytes_in += meta.length;
  co_return absl::OkStatus();
}

}  // namespace kvtier
