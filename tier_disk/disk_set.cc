#include "tier_disk/disk_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "tier_disk/disk_set_state.h"
#include "tier_disk/log/record.h"

namespace kvtier {
namespace {

std::vector<DiskShare> SharesOf(const std::vector<DiskSet::Member>& members) {
  std::vector<DiskShare> shares;
  shares.reserve(members.size());
  for (const DiskSet::Member& member : members) {
    const uint64_t bytes = member.disk->segment_count() * member.disk->segment_bytes();
    shares.push_back({.id = member.id, .capacity_bytes = bytes});
  }
  return shares;
}

}  // namespace

uint64_t DiskSet::BytesOnDisk(uint64_t length) { return RecordBytes(length); }

DiskSet::DiskSet(Executor* executor, TaskScope* scope, const std::vector<Member>& members,
                 Follower follower)
    : executor_(executor),
      scope_(scope),
      placement_(SharesOf(members)),
      follower_(std::move(follower)),
      all_ended_opening_(std::make_shared<Event>(executor)) {
  for (const Member& member : members) {
    disks_.push_back(std::make_unique<Disk>(member));
    Disk* const disk = disks_.back().get();
    disk->watched->SetOnChange([this, disk] { HealthChanged(disk); });
  }
}

DiskSet::~DiskSet() {
  for (const auto& disk : disks_) disk->watched->SetOnChange(nullptr);
}

// Opening.

Task<void> DiskSet::OpenOne(Disk* disk) {
  absl::StatusOr<DiskTier::Recovery> opened = co_await disk->tier->Open();
  // A disk that joins late serves nothing before its duplicates are hidden.
  if (open_ && opened.ok()) co_await HideDuplicatesInTurns(disk);
  disk->recovery = std::move(opened);
  if (--opening_ == 0) all_ended_opening_->Set();
  if (!open_) co_return;  // Open() still runs, and admits this disk when it ends.
  if (!disk->recovery.ok()) {
    Log(LogLevel::kError,
        absl::StrCat("disk ", disk->id.ToHex(), ": ", disk->recovery.status().ToString()));
    co_return;
  }
  ScrubIfOpen(disk);
  StartUpdate(disk);
}

uint64_t DiskSet::HideDuplicates(Disk* disk) {
  HideDuplicates(disk, disk->tier->Keys());
  return disk->hidden.size();
}

Task<void> DiskSet::HideDuplicatesInTurns(Disk* disk) {
  bool more = true;
  for (DiskWalk at; more;) {
    std::vector<BlockKey> keys;
    more = disk->tier->KeysFrom(&at, kAnnouncedPerTurn, &keys);
    HideDuplicates(disk, keys);
    if (more) co_await SleepUntil(executor_, executor_->Now());
  }
}

void DiskSet::HideDuplicates(Disk* disk, std::span<const BlockKey> keys) {
  const bool is_healthy = disk->watched->health().healthy();
  for (const BlockKey& key : keys) {
    for (const auto& other : disks_) {
      // A disk that is not open hides duplicates when it opens; its index is empty until then.
      if (other.get() == disk || !other->Has(key)) continue;
      // A copy that can be read stays.
      const bool stays = is_healthy && !other->watched->health().healthy();
      HideCopy(stays ? other.get() : disk, key);
      if (!stays) break;
    }
  }
}

Task<DiskSet::Recovery> DiskSet::Open(absl::Time deadline) {
  KVT_CHECK(!open_ && opening_ == 0);
  opening_ = disks_.size();
  for (const auto& disk : disks_) scope_->Spawn(OpenOne(disk.get()));
  co_await all_ended_opening_->WaitUntil(deadline);
  open_ = true;

  Recovery result;
  for (const auto& disk : disks_) {
    result.disks.push_back(disk->recovery);
    if (!disk->recovery.ok()) continue;
    const DiskTier::Recovery& found = *disk->recovery;
    const uint64_t duplicates = HideDuplicates(disk.get());
    result.dropped_duplicates += duplicates;
    result.total.recovered_blocks += found.recovered_blocks - duplicates;
    result.total.dropped_stale += found.dropped_stale;
    result.total.dropped_corrupt += found.dropped_corrupt;
    result.total.dropped_misfit += found.dropped_misfit;
    result.total.dropped_keyless += found.dropped_keyless;
    disk->serving = disk->watched->health().healthy();
    disk->announced = disk->serving;  // The caller of Open() reads Keys() instead of the follower.
    StartErasing(disk.get());
  }
  co_return result;
}

Task<bool> DiskSet::Idle(absl::Time deadline) {
  bool idle = true;
  for (size_t i = 0; i < disks_.size(); ++i) {
    const bool one = co_await disks_[i]->tier->Idle(deadline);
    idle = idle && one;
  }
  co_return idle;
}

// Scrub.

void DiskSet::StartScrub(uint64_t bytes_per_second) {
  KVT_CHECK(open_);
  scrub_bytes_per_second_ = bytes_per_second;
  for (const auto& disk : disks_) ScrubIfOpen(disk.get());
}

void DiskSet::ScrubIfOpen(Disk* disk) {
  if (!scrub_bytes_per_second_.has_value() || !disk->recovery.ok()) return;
  scope_->Spawn(disk->tier->RunScrub(*scrub_bytes_per_second_));
}

void DiskSet::StopScrub() {
  scrub_bytes_per_second_.reset();
  for (const auto& disk : disks_) disk->tier->StopScrub();
}

std::vector<absl::Status> DiskSet::VerifyAll(uint64_t bytes_per_second) {
  std::vector<absl::Status> began;
  began.reserve(disks_.size());
  for (const auto& disk : disks_) began.push_back(disk->tier->VerifyAll(bytes_per_second));
  return began;
}

// Calls.

DiskSet::Disk* DiskSet::Holder(const BlockKey& key) const {
  for (const auto& disk : disks_) {
    if (disk->serving && disk->Has(key)) return disk.get();
  }
  return nullptr;
}

bool DiskSet::IsElsewhere(const Disk* disk, const BlockKey& key) const {
  return std::any_of(disks_.begin(), disks_.end(), [&](const auto& other) {
    return other.get() != disk && other->serving && other->Has(key);
  });
}

Task<absl::Status> DiskSet::Put(BlockMeta meta, std::span<const std::byte> slot,
                                std::string tenant) {
  KVT_CHECK(open_);
  absl::Status status = absl::UnavailableError(
      absl::StrCat("none of ", disks_.size(), " disks is in service for a put"));
  if (Disk* const holder = Holder(meta.key)) {
    // The disk proves its copy, and replaces a damaged one.
    status = co_await PutOn(holder, meta, slot, tenant);
    if (status.ok() || absl::IsAborted(status)) co_return status;
  }
  const std::vector<size_t> order = placement_.Order(meta.key);
  for (const size_t place : order) {
    // Looks before each disk: another put of the block may have ended meanwhile.
    if (Contains(meta.key)) co_return absl::OkStatus();
    if (erasing_.contains(tenant)) {
      co_return absl::AbortedError(absl::StrCat("tenant '", tenant, "' is being erased"));
    }
    Disk* const disk = disks_[place].get();
    if (!disk->serving) continue;
    status = co_await PutOn(disk, meta, slot, tenant);
    // kAborted: the tenant was erased meanwhile. On another disk it would get a new key for a block
    // that was to be erased.
    if (status.ok() || absl::IsAborted(status)) break;
  }
  co_return status;
}

Task<absl::Status> DiskSet::PutOn(Disk* disk, const BlockMeta& meta,
                                  std::span<const std::byte> slot, const std::string& tenant) {
  ++disk->calls.puts;
  absl::Status status;
  // Erases a hidden copy first: the tier would take it for the block and write nothing.
  if (disk->hidden.contains(meta.key)) status = co_await EraseOn(disk, meta.key);
  if (status.ok()) status = co_await disk->tier->Put(meta, slot, tenant);
  --disk->calls.puts;
  if (status.ok()) status = KeepOneCopy(disk, meta.key);
  co_return status;
}

absl::Status DiskSet::KeepOneCopy(Disk* disk, const BlockKey& key) {
  const bool elsewhere = IsElsewhere(disk, key);
  if (disk->serving && !elsewhere) {
    for (const auto& other : disks_) {
      if (other.get() != disk) HideCopy(other.get(), key);
    }
    return absl::OkStatus();
  }
  HideCopy(disk, key);
  if (elsewhere) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("disk ", disk->id.ToHex(), " was quarantined while it wrote the block"));
}

Task<absl::StatusOr<BlockMeta>> DiskSet::Get(BlockKey key, std::span<std::byte> slot,
                                             IoClass io_class) {
  KVT_CHECK(open_);
  Disk* const disk = Holder(key);
  if (disk == nullptr) {
    ++misses_;
    co_return absl::NotFoundError(absl::StrCat("block ", key.ToHex(), " is on no disk in service"));
  }
  ++disk->calls.gets;
  absl::StatusOr<BlockMeta> got = co_await disk->tier->Get(key, slot, io_class);
  --disk->calls.gets;
  co_return got;
}

void DiskSet::MoveToForeground(const BlockKey& key) {
  if (const Disk* const disk = Holder(key)) disk->tier->MoveToForeground(key);
}

Task<absl::Status> DiskSet::Erase(BlockKey key) {
  KVT_CHECK(open_);
  absl::Status result;
  for (size_t i = 0; i < disks_.size(); ++i) {
    Disk* const disk = disks_[i].get();
    if (!disk->serving) {
      HideCopy(disk, key);
    } else if (!disk->hidden.contains(key)) {
      // Erases on disks without the block, too: a put of it may be in flight.
      const absl::Status erased = co_await EraseOn(disk, key);
      result.Update(erased);
    }
  }
  co_return result;
}

Task<absl::Status> DiskSet::EraseOn(Disk* disk, BlockKey key) {
  disk->hidden.erase(key);
  // The block has left the tier's index before any other code runs, unless a put of it is in flight
  // there. That put may end, and be hidden, before the erase, which TierChanged() notes.
  co_return co_await disk->tier->Erase(key);
}

Task<absl::Status> DiskSet::Confirm(size_t member) {
  Disk* const disk = disks_.at(member).get();
  if (!disk->serving) {
    co_return absl::UnavailableError(absl::StrCat("disk ", disk->id.ToHex(), " is out of service"));
  }
  co_return co_await disk->tier->Confirm();
}

void DiskSet::HideCopy(Disk* disk, const BlockKey& key) {
  if (!disk->tier->Contains(key)) return;
  disk->hidden.insert(key);
  StartErasing(disk);
}

void DiskSet::StartErasing(Disk* disk) {
  if (!disk->serving || disk->erasing || disk->hidden.empty()) return;
  disk->erasing = true;
  scope_->Spawn(EraseHidden(disk));
}

Task<void> DiskSet::EraseHidden(Disk* disk) {
  while (disk->serving && !disk->hidden.empty()) {
    const BlockKey key = *disk->hidden.begin();
    // If the manifest fails, the copy is back after a restart, as a duplicate.
    (co_await EraseOn(disk, key)).IgnoreError();
  }
  disk->erasing = false;
}

// Disks that join and leave.

void DiskSet::TierChanged(size_t member, Change change, const BlockKey& key, TenantTag owner) {
  Disk* const disk = disks_[member].get();
  if (change == Change::kDropped) disk->hidden.erase(key);
  // Does not announce a copy that KeepOneCopy() will hide, nor the removal of such a copy.
  const bool counts = change == Change::kAdded ? disk->serving : disk->announced;
  if (counts && !IsElsewhere(disk, key)) follower_(change, key, owner);
}

void DiskSet::HealthChanged(Disk* disk) {
  if (!disk->watched->health().healthy()) {
    disk->serving = false;  // Takes effect now; withdrawing the announcements takes time.
    Log(LogLevel::kWarning, absl::StrCat("disk ", disk->id.ToHex(),
                                         " out of service: ", disk->watched->health().Describe()));
  }
  StartUpdate(disk);
}

void DiskSet::StartUpdate(Disk* disk) {
  if (!open_ || disk->updating) return;
  disk->updating = true;
  scope_->Spawn(UpdateAnnouncements(disk));
}

Task<void> DiskSet::UpdateAnnouncements(Disk* disk) {
  while (true) {
    // The task never runs inside the I/O that decided the disk's health, and lets other tasks run
    // between a quarantine and the readmission after it.
    co_await SleepUntil(executor_, executor_->Now());
    const bool fit = disk->watched->health().healthy() && disk->recovery.ok();
    if (disk->announced && !disk->serving) {
      co_await Withdraw(disk);
    } else if (!disk->announced && fit) {
      co_await Admit(disk);
    } else {
      break;
    }
  }
  disk->updating = false;
}

Task<void> DiskSet::Withdraw(Disk* disk) {
  bool more = true;
  for (DiskWalk at; more;) {
    std::vector<BlockKey> keys;
    more = disk->tier->KeysFrom(&at, kAnnouncedPerTurn, &keys);
    for (const BlockKey& key : keys) {
      // Another serving disk may have the block.
      if (!IsElsewhere(disk, key)) follower_(Change::kDropped, key, *disk->tier->OwnerOf(key));
    }
    if (more) co_await SleepUntil(executor_, executor_->Now());
  }
  disk->announced = false;
}

Task<void> DiskSet::Admit(Disk* disk) {
  disk->serving = true;
  disk->announced = true;
  StartErasing(disk);
  Log(LogLevel::kInfo,
      absl::StrCat("disk ", disk->id.ToHex(), " in service: ", disk->visible(), " blocks"));
  bool more = true;
  // UpdateAnnouncements() withdraws the blocks of a disk that serves no more.
  for (DiskWalk at; more && disk->serving;) {
    std::vector<BlockKey> keys;
    more = disk->tier->KeysFrom(&at, kAnnouncedPerTurn, &keys);
    for (const BlockKey& key : keys) {
      if (disk->Has(key)) follower_(Change::kAdded, key, *disk->tier->OwnerOf(key));
    }
    if (more) co_await SleepUntil(executor_, executor_->Now());
  }
}

}  // namespace kvtier
