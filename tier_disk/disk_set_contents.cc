// Implements the queries of a DiskSet's content: it asks the disks and changes nothing but recency.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "tier_disk/disk_set.h"
#include "tier_disk/disk_set_state.h"

namespace kvtier {

std::optional<DiskBlock> DiskSet::Find(const BlockKey& key) const {
  const Disk* const holder = Holder(key);
  if (holder == nullptr) return std::nullopt;
  return holder->tier->Find(key);
}

std::optional<TenantTag> DiskSet::OwnerOf(const BlockKey& key) const {
  const Disk* const holder = Holder(key);
  if (holder == nullptr) return std::nullopt;
  return holder->tier->OwnerOf(key);
}

bool DiskSet::KeysFrom(DiskWalk* at, size_t limit, std::vector<BlockKey>* keys) const {
  if (at->disk >= disks_.size()) return false;
  const Disk& disk = *disks_[at->disk];
  bool more = false;
  if (disk.serving) {
    std::vector<BlockKey> found;
    more = disk.tier->KeysFrom(at, limit, &found);
    for (const BlockKey& key : found) {
      if (!disk.hidden.contains(key)) keys->push_back(key);
    }
  }
  if (!more) *at = {.disk = at->disk + 1};
  return at->disk < disks_.size();
}

bool DiskSet::HasChildOf(const BlockKey& key) const {
  return std::any_of(disks_.begin(), disks_.end(), [&](const auto& disk) {
    return disk->serving && disk->tier->HasChildOf(key);
  });
}

void DiskSet::ForEachChildOf(const BlockKey& key,
                             absl::FunctionRef<bool(const BlockKey&)> visit) const {
  bool goes_on = true;
  for (const auto& disk : disks_) {
    if (!disk->serving || !goes_on) continue;
    disk->tier->ForEachChildOf(key, [&](const BlockKey& child) {
      return goes_on = disk->hidden.contains(child) || visit(child);
    });
  }
}

const DiskTier& DiskSet::tier(size_t member) const { return *disks_.at(member)->tier; }

std::optional<size_t> DiskSet::DiskFor(const BlockKey& key) const {
  for (const size_t place : placement_.Order(key)) {
    if (disks_[place]->serving) return place;
  }
  return std::nullopt;
}

std::optional<size_t> DiskSet::HolderOf(const BlockKey& key) const {
  for (size_t i = 0; i < disks_.size(); ++i) {
    if (disks_[i]->serving && disks_[i]->Has(key)) return i;
  }
  return std::nullopt;
}

void DiskSet::Touch(const BlockKey& key, const ReuseHint& hint) {
  if (Disk* const disk = Holder(key)) disk->tier->NoteUse(key, hint);
  std::optional<BlockKey> next = key;
  while (next.has_value()) {
    Disk* const disk = Holder(*next);
    if (disk == nullptr) break;
    next = disk->tier->MarkWarm(*next);
  }
}

size_t DiskSet::block_count() const {
  size_t count = 0;
  for (const auto& disk : disks_) {
    if (disk->serving) count += disk->visible();
  }
  return count;
}

uint64_t DiskSet::capacity_bytes() const {
  uint64_t bytes = 0;
  for (const auto& disk : disks_) bytes += disk->serving ? disk->tier->capacity_bytes() : 0;
  return bytes;
}

uint64_t DiskSet::used_bytes() const {
  uint64_t bytes = 0;
  for (const auto& disk : disks_) bytes += disk->serving ? disk->tier->used_bytes() : 0;
  return bytes;
}

TierStats DiskSet::stats() const {
  TierStats sum;
  for (const auto& disk : disks_) sum.Add(disk->tier->stats());
  sum.misses += misses_;
  return sum;
}

std::string DiskSet::HealthOf(const Disk& disk) {
  const absl::Status& opened = disk.recovery.status();
  if (!opened.ok()) return absl::StrCat("not open: ", opened.ToString());
  if (!disk.watched->health().healthy()) return disk.watched->health().Describe();
  const absl::Status room = disk.tier->HasRoom();
  return room.ok() ? disk.watched->health().Describe()
                   : absl::StrCat("takes no blocks: ", room.message());
}

std::vector<DiskSet::DiskStatus> DiskSet::Statuses() const {
  std::vector<DiskStatus> statuses;
  for (const auto& disk : disks_) {
    const TierStats& stats = disk->tier->stats();
    statuses.push_back({.id = disk->id,
                        .serving = disk->serving,
                        .health = HealthOf(*disk),
                        .quarantines = disk->watched->health().quarantines(),
                        .block_count = disk->tier->block_count(),
                        .capacity_bytes = disk->tier->capacity_bytes(),
                        .used_bytes = disk->tier->used_bytes(),
                        .index_bytes = disk->tier->index_bytes(),
                        .manifest_bytes = disk->tier->manifest_bytes(),
                        .bytes_in = stats.bytes_in,
                        .bytes_out = stats.bytes_out,
                        .written_bytes = disk->watched->written_bytes(),
                        .reappended_bytes = disk->tier->reclaimed().reappended_bytes,
                        .io_errors = stats.io_errors,
                        .scrub = disk->tier->scrub()});
  }
  return statuses;
}

bool DiskSet::serves(size_t member) const { return disks_.at(member)->serving; }

bool DiskSet::settled() const {
  return std::none_of(disks_.begin(), disks_.end(),
                      [](const auto& disk) { return disk->updating; });
}

DiskSet::Calls DiskSet::stuck() const {
  Calls sum;
  for (const auto& disk : disks_) {
    if (disk->serving) continue;
    sum.puts += disk->calls.puts;
    sum.gets += disk->calls.gets;
  }
  return sum;
}

void DiskSet::Audit() const {
  absl::flat_hash_set<BlockKey> seen;
  for (const auto& disk : disks_) {
    disk->tier->Audit();
    KVT_CHECK(!disk->serving || (disk->recovery.ok() && disk->watched->health().healthy()));
    if (!disk->recovery.ok() || !open_) continue;
    for (const BlockKey& key : disk->hidden) KVT_CHECK(disk->tier->Contains(key));
    for (const BlockKey& key : disk->tier->Keys()) {
      KVT_CHECK(disk->hidden.contains(key) || seen.insert(key).second);
    }
  }
}

}  // namespace kvtier
