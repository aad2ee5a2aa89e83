#include "tests/crash/disk_kill_child.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <system_error>

#include "core/check.h"
#include "core/kill_point.h"
#include "tests/tier_disk/disk_child.h"
#include "tests/tier_disk/disk_rig.h"

namespace kvtier::testing {
namespace {

constexpr int kStreams = 8;  // Number of concurrent flows.
// Number of blocks that are put again and again, so that two puts meet.
constexpr uint64_t kHotBlocks = 4;
constexpr uint64_t kRotEvery = 24;  // One in this many reads is damaged.

std::optional<uint64_t> ParentOf(uint64_t number) {
  if (number % 8 == 0) return std::nullopt;
  return number - 1;
}

// RottenReads is a disk some of whose reads return a wrong header. The stored bytes stay right: a
// kill may undo a drop, and the block is then readable again.
class RottenReads final : public Disk {
 public:
  // Does not own `disk`.
  RottenReads(Disk* disk, uint64_t seed) : disk_(disk), random_(seed) {}
  uint32_t segment_count() const override { return disk_->segment_count(); }
  uint64_t segment_bytes() const override { return disk_->segment_bytes(); }
  Task<absl::Status> Read(IoClass io_class, DiskAddress from,
                          std::span<const std::span<std::byte>> into) override {
    const bool rots = ++reads_ % kRotEvery == 0;
    absl::Status read = co_await disk_->Read(io_class, from, into);
    if (rots) into[0][random_() % 64] ^= std::byte{1};
    co_return read;
  }
  Task<absl::Status> Write(IoClass io_class, DiskAddress to,
                           std::span<const std::span<const std::byte>> from) override {
    return disk_->Write(io_class, to, from);
  }
  void MoveToForeground(DiskAddress from, uint64_t bytes) override {
    disk_->MoveToForeground(from, bytes);
  }

 private:
  Disk* const disk_;
  uint64_t reads_ = 0;
  std::mt19937_64 random_;
};

// Life is one opening of the disk and the work on it.
class Life {
 public:
  Life(const KillPlan& plan, uint64_t seed)
      : executor_("child-executor"), pool_(&executor_, "child-bytes", 1), random_(seed) {
    auto disk = OpenDisk(&executor_, KillLayout(plan.directory), plan.io);
    if (!disk.ok()) Fail(disk.status());
    disk_ = *std::move(disk);
    rotten_ = std::make_unique<RottenReads>(disk_.disk.get(), random_());
    tier_ = std::make_unique<DiskTier>(&executor_, &pool_, rotten_.get(), disk_.manifest.get(),
                                       &Life::Tell);
    const auto opened = RunTask(&executor_, tier_->Open());
    if (!opened.ok()) Fail(opened.status());
  }
  void Work(uint64_t steps) {
    steps_left_ = steps;
    RunTask(&executor_, WorkAll());
  }

 private:
  static void Fail(const absl::Status& status) {
    std::fprintf(stderr, "child: %s\n", status.ToString().c_str());
    _exit(kDiskFailed);
  }
  static void Tell(DiskTier::Change change, const BlockKey& key, TenantTag) {
    if (change == DiskTier::Change::kAdded) return;
    TellParent({.what = DiskReport::What::kDropped, .number = KillBlockNumber(key)});
  }

  Task<bool> WorkAll() {
    TaskScope scope(&executor_);
    for (int i = 0; i < kStreams; ++i) scope.Spawn(Stream());
    co_return co_await scope.Idle(absl::InfiniteFuture());
  }
  Task<void> Stream();
  Task<void> Put(uint64_t number);
  Task<void> Get(uint64_t number);

  ThreadExecutor executor_;
  BytePool pool_;
  OpenedDisk disk_;
  std::unique_ptr<RottenReads> rotten_;
  std::unique_ptr<DiskTier> tier_;
  // State that only the executor's thread uses once Work() has begun.
  std::mt19937_64 random_;
  uint64_t steps_left_ = 0;
};

Task<void> Life::Stream() {
  while (steps_left_ > 0) {
    --steps_left_;
    const uint64_t roll = random_() % 100;
    if (roll < 12) {
      co_await Put(random_() % kHotBlocks);
    } else if (roll < 60) {
      co_await Put(random_() % kKillBlocks);
    } else if (roll < 85) {
      co_await Get(random_() % kKillBlocks);
    } else {
      const uint64_t number = roll < 91 ? random_() % kHotBlocks : random_() % kKillBlocks;
      const absl::Status erased = co_await tier_->Erase(DiskKey(number));
      if (!erased.ok()) Fail(erased);
    }
  }
}

Task<void> Life::Put(uint64_t number) {
  const uint64_t length = KillBlockLength(number);
  PageBuffer slot = DiskPayload(number, length);
  const BlockMeta block = MakeDiskBlock(number, length, ParentOf(number));
  const absl::Status put = co_await tier_->Put(block, slot.bytes());
  // Puts are declined under pressure; any other error is a failure.
  if (!put.ok() && !absl::IsResourceExhausted(put)) Fail(put);
  // The block may have been dropped again after the put ended.
  if (put.ok() && tier_->Contains(block.key)) {
    TellParent({.what = DiskReport::What::kDurable, .number = number});
  }
}

Task<void> Life::Get(uint64_t number) {
  const uint64_t length = KillBlockLength(number);
  PageBuffer slot(length);
  const absl::StatusOr<BlockMeta> got = co_await tier_->Get(DiskKey(number), slot.bytes());
  if (got.ok() && !HoldsDiskBlock(number, length, &slot)) _exit(kWrongBytes);
}

void SpoilManifest(const std::string& path, bool remove) {
  TellParent({.what = DiskReport::What::kForgotten});
  std::error_code error;
  if (!std::filesystem::exists(path + "/CURRENT", error)) return;  // Gone already.
  if (remove) {
    std::filesystem::remove_all(path, error);
  } else {
    std::ofstream(path + "/CURRENT") << "nonsense";
  }
}

}  // namespace

DiskLayout KillLayout(const std::string& directory) {
  return {.directory = directory, .segment_bytes = uint64_t{1} << 20, .segment_count = 6};
}

uint64_t KillBlockLength(uint64_t number) {
  constexpr uint64_t kLengths[] = {4096, 1, 30000, 65536, 8192, 100001, 12288};
  return kLengths[number % std::size(kLengths)];
}

uint64_t KillBlockNumber(const BlockKey& key) {
  static const std::map<BlockKey, uint64_t> numbers = [] {
    std::map<BlockKey, uint64_t> result;
    for (uint64_t i = 0; i < kKillBlocks; ++i) result[DiskKey(i)] = i;
    return result;
  }();
  return numbers.at(key);
}

std::vector<std::string> KillWords(const KillPlan& plan) {
  return {"--child",
          plan.directory,
          plan.io == DiskIoKind::kPread ? "pread" : "auto",
          std::to_string(plan.seed),
          std::to_string(plan.opens),
          std::to_string(plan.steps),
          plan.renew ? "renew" : "keep",
          std::to_string(plan.nth),
          plan.place};
}

KillPlan ParseKillWords(const std::vector<std::string>& words) {
  KVT_CHECK(words.size() == 9);
  const auto number = [&](size_t word) { return std::strtoull(words[word].c_str(), nullptr, 10); };
  return {.directory = words[1],
          .io = words[2] == "pread" ? DiskIoKind::kPread : DiskIoKind::kAuto,
          .seed = number(3),
          .opens = number(4),
          .steps = number(5),
          .renew = words[6] == "renew",
          .place = words[8],
          .nth = number(7)};
}

int RunKillChild(const KillPlan& plan) {
  if (!plan.place.empty()) ArmKillPoint(plan.place, plan.nth);
  std::mt19937_64 random(plan.seed);
  for (uint64_t i = 0; i < plan.opens; ++i) {
    if (plan.renew)
      SpoilManifest(KillLayout(plan.directory).manifest_path(), (plan.seed + i) % 2 == 0);
    Life life(plan, random());
    life.Work(plan.steps);
  }
  for (size_t i = 0; i < kKillPoints.size(); ++i) {
    TellParent({.what = DiskReport::What::kHits, .number = i, .count = KillPointHits(i)});
  }
  return 0;
}

}  // namespace kvtier::testing
