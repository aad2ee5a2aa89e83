// DiskSetRig is a DiskSet over simulated disks, and the owner's view of it: the blocks that the set
// has announced.
#ifndef KVTIER_TESTS_TIER_DISK_DISK_SET_RIG_H_
#define KVTIER_TESTS_TIER_DISK_DISK_SET_RIG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "tests/testing/sim_disk.h"
#include "tests/testing/sim_executor.h"
#include "tests/testing/sim_manifest.h"
#include "tests/tier_disk/disk_blocks.h"
#include "tests/tier_disk/run_task.h"
#include "tier_disk/disk_set.h"

namespace kvtier::testing {

class DiskSetRig {
 public:
  // One disk: its content outlives Close(), the objects that serve it do not.
  struct Disk {
    Disk(DiskId id, uint32_t segments, uint64_t seed);
    const DiskId id;
    SimDiskMedia media;
    SimManifestMedia rows;
    std::unique_ptr<SimDisk> sim;
    std::unique_ptr<SimManifest> manifest;
    std::unique_ptr<WatchedDisk> watched;
    std::unique_ptr<DiskTier> tier;
  };

  // Makes disks of that many segments of 1 MiB; their ids are 1, 2, 3 ...
  explicit DiskSetRig(std::vector<uint32_t> segments, uint64_t seed = 1);
  ~DiskSetRig() { Close(); }

  // Opens a set of these disks (indexes), or of all. Always OK.
  absl::Status Open(std::vector<size_t> members);
  absl::Status Open();
  void Close();  // Also serves as a crash: I/O in flight is torn.

  template <typename T>
  T Run(Task<T> task) {
    return RunTask(&time, executor.get(), std::move(task));
  }
  void Pass(absl::Duration duration) { time.RunUntil(time.Now() + duration); }
  // These tasks own their bytes, so they may outlive the test's wait for them.
  Task<absl::Status> PutTask(uint64_t number);
  Task<absl::Status> GetTask(uint64_t number);  // kInternal: wrong bytes.
  Task<absl::Status> EraseTask(uint64_t number);
  absl::Status Put(uint64_t number) { return Run(PutTask(number)); }
  absl::Status Get(uint64_t number) { return Run(GetTask(number)); }
  absl::Status Erase(uint64_t number) { return Run(EraseTask(number)); }
  // Runs the task like a caller with a deadline: returns its status, or kDeadlineExceeded at the
  // deadline; the task then goes on without a waiter.
  absl::Status By(absl::Duration timeout, Task<absl::Status> task);

  // Returns the index in `disks` where the block belongs among all disks.
  size_t Preferred(uint64_t number) const;
  // Returns the first `count` block numbers that belong on disk `disk`.
  std::vector<uint64_t> NumbersOf(size_t disk, size_t count) const;
  // Gets until disk `disk` is quarantined, at most 1000 times.
  void GetUntilQuarantined(size_t disk, const std::vector<uint64_t>& numbers);
  bool healthy(size_t disk) const { return disks[disk]->watched->health().healthy(); }

  SimTime time;
  std::vector<std::unique_ptr<Disk>> disks;
  std::unique_ptr<SimExecutor> executor;
  std::unique_ptr<TaskScope> scope;
  std::unique_ptr<DiskSet> set;
  DiskSet::Recovery recovery;  // Result of the last Open().
  absl::Duration open_timeout = absl::Seconds(10);
  std::set<BlockKey> known;              // Blocks that the owner believes to be on disk.
  std::map<BlockKey, TenantTag> owners;  // Owners by the follower's latest report.
  int added = 0;
  int dropped = 0;

 private:
  InlineByteThreads byte_threads_;
};

// Length of every block of the rig.
inline constexpr uint64_t kSetBlockBytes = 12000;

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TIER_DISK_DISK_SET_RIG_H_
