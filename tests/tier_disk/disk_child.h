// DiskChild runs this test program again as a child that works on a disk until it is killed, and
// reports over a pipe what happened to which block. This header also has what a parent needs to
// compare the disk with those reports afterwards.
//
// REQUIRES: the program's main() handles "--child" arguments before GoogleTest.
#ifndef KVTIER_TESTS_TIER_DISK_DISK_CHILD_H_
#define KVTIER_TESTS_TIER_DISK_DISK_CHILD_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/task.h"
#include "tier_disk/disk_tier.h"

namespace kvtier::testing {

// Report of a child about the block with this number.
struct DiskReport {
  enum class What : uint64_t {
    kDurable,    // The tier said that the block is on disk.
    kDropped,    // The block is about to become unreadable: reclaimed, erased or damaged.
    kForgotten,  // Every block is forgotten: the disk is about to be made again.
    kHits,       // The kill point `number` was reached `count` times in this life.
  };
  What what = What::kDurable;
  uint64_t number = 0;
  uint64_t count = 0;
};
static_assert(sizeof(DiskReport) == 24);  // Below PIPE_BUF, so one write is never torn.

// Sends a report from the child. Ends the process if the parent is gone.
void TellParent(const DiskReport& report);

// DiskChild owns the child process. Not thread-safe.
class DiskChild {
 public:
  // Starts /proc/self/exe with these arguments. nullptr: the system refused.
  static std::unique_ptr<DiskChild> Start(std::vector<std::string> words);
  ~DiskChild();  // Kills it, if it still runs.
  DiskChild(const DiskChild&) = delete;
  DiskChild& operator=(const DiskChild&) = delete;

  // Waits for the next report. nullopt: the child has ended and all reports were read.
  std::optional<DiskReport> Next();
  void Kill();  // Sends SIGKILL.
  // Waits for its end; returns its exit status, or minus the signal that ended it.
  int Wait();

 private:
  DiskChild(pid_t pid, int reports) : pid_(pid), reports_(reports) {}

  const pid_t pid_;
  const int reports_;
  std::optional<int> ended_;
};

// DurableBlocks are the blocks whose last report says that they are durable.
class DurableBlocks {
 public:
  void Take(const DiskReport& report);
  const std::set<uint64_t>& numbers() const { return numbers_; }

 private:
  std::set<uint64_t> numbers_;
};

// Reads each of these blocks. Errors: the first one that is missing, unreadable, or (kInternal) has
// other bytes. `tier` and `numbers` outlive the task.
Task<absl::Status> ReadBlocks(DiskTier* tier, const std::set<uint64_t>& numbers,
                              uint64_t (*length_of)(uint64_t));

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TIER_DISK_DISK_CHILD_H_
