#include "tests/tier_disk/disk_set_rig.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier::testing {
namespace {

constexpr uint64_t kSegmentBytes = uint64_t{1} << 20;

Task<void> RunShared(Task<absl::Status> task, std::shared_ptr<std::optional<absl::Status>> status) {
  *status = co_await task;
}

}  // namespace

DiskSetRig::Disk::Disk(DiskId id, uint32_t segments, uint64_t seed)
    : id(id), media(segments, kSegmentBytes, seed), rows(seed + 1) {}

DiskSetRig::DiskSetRig(std::vector<uint32_t> segments, uint64_t seed) {
  for (const uint32_t count : segments) {
    const uint64_t number = disks.size() + 1;
    disks.push_back(std::make_unique<Disk>(TestDiskId(0, number), count, seed + 100 * number));
  }
}

absl::Status DiskSetRig::Open() {
  std::vector<size_t> all(disks.size());
  std::iota(all.begin(), all.end(), 0);
  return Open(all);
}

absl::Status DiskSetRig::Open(std::vector<size_t> members) {
  Close();
  executor = std::make_unique<SimExecutor>(&time);
  scope = std::make_unique<TaskScope>(executor.get());
  std::vector<DiskSet::Member> parts;
  for (const size_t index : members) {
    Disk& disk = *disks[index];
    disk.sim = std::make_unique<SimDisk>(executor.get(), &disk.media);
    disk.manifest = std::make_unique<SimManifest>(executor.get(), &disk.rows);
    disk.watched = std::make_unique<WatchedDisk>(executor.get(), scope.get(), disk.sim.get());
    const size_t member = parts.size();
    disk.tier = std::make_unique<DiskTier>(
        executor.get(), &byte_threads_, disk.watched.get(), disk.manifest.get(),
        [this, member](DiskTier::Change change, const BlockKey& key, TenantTag owner) {
          set->TierChanged(member, change, key, owner);
        });
    parts.push_back({.id = disk.id, .tier = disk.tier.get(), .disk = disk.watched.get()});
  }
  DiskSet::Follower follower = [this](DiskSet::Change change, const BlockKey& key,
                                      TenantTag owner) {
    owners[key] = owner;
    if (change == DiskSet::Change::kAdded) {
      ++added;
      known.insert(key);
    } else {
      ++dropped;
      known.erase(key);
    }
  };
  set = std::make_unique<DiskSet>(executor.get(), scope.get(), parts, std::move(follower));
  recovery = Run(set->Open(time.Now() + open_timeout));
  for (const BlockKey& key : set->Keys()) known.insert(key);
  return absl::OkStatus();
}

void DiskSetRig::Close() {
  scope.reset();
  set.reset();
  for (const auto& disk : disks) {
    disk->tier.reset();
    disk->watched.reset();
    disk->manifest.reset();
    disk->sim.reset();
  }
  executor.reset();
  known.clear();
  added = 0;
  dropped = 0;
}

Task<absl::Status> DiskSetRig::PutTask(uint64_t number) {
  PageBuffer slot = DiskPayload(number, kSetBlockBytes);
  const BlockMeta block = MakeDiskBlock(number, kSetBlockBytes);
  const absl::Status status = co_await set->Put(block, slot.bytes());
  co_return status;
}

Task<absl::Status> DiskSetRig::GetTask(uint64_t number) {
  PageBuffer slot(kSetBlockBytes);
  const auto got = co_await set->Get(DiskKey(number), slot.bytes());
  const absl::Status& status = got.status();
  if (!status.ok() || HoldsDiskBlock(number, kSetBlockBytes, &slot)) co_return status;
  co_return absl::InternalError(absl::StrCat("block ", number, ": WRONG BYTES served"));
}

Task<absl::Status> DiskSetRig::EraseTask(uint64_t number) {
  known.erase(DiskKey(number));
  const absl::Status status = co_await set->Erase(DiskKey(number));
  // A put in flight may have announced the block again, before or after the erase.
  if (!set->Find(DiskKey(number))) known.erase(DiskKey(number));
  co_return status;
}

absl::Status DiskSetRig::By(absl::Duration timeout, Task<absl::Status> task) {
  const auto status = std::make_shared<std::optional<absl::Status>>();
  const absl::Time deadline = time.Now() + timeout;
  scope->Spawn(RunShared(std::move(task), status));
  bool over = false;
  const TimerId timer = executor->PostAt(deadline, [&over] { over = true; });
  while (!status->has_value() && !over) KVT_CHECK(time.Step());
  executor->Cancel(timer);
  return status->value_or(absl::DeadlineExceededError("the caller's deadline passed"));
}

size_t DiskSetRig::Preferred(uint64_t number) const {
  std::vector<DiskShare> shares;
  for (const auto& disk : disks) {
    shares.push_back(
        {.id = disk->id, .capacity_bytes = disk->media.segment_count() * kSegmentBytes});
  }
  return Placement(std::move(shares)).Preferred(DiskKey(number));
}

std::vector<uint64_t> DiskSetRig::NumbersOf(size_t disk, size_t count) const {
  std::vector<uint64_t> numbers;
  for (uint64_t number = 0; numbers.size() < count; ++number) {
    if (Preferred(number) == disk) numbers.push_back(number);
  }
  return numbers;
}

void DiskSetRig::GetUntilQuarantined(size_t disk, const std::vector<uint64_t>& numbers) {
  for (int i = 0; i < 1000 && healthy(disk); ++i) {
    Get(numbers[i % numbers.size()]).IgnoreError();  // Only the disk's health matters.
  }
}

}  // namespace kvtier::testing
