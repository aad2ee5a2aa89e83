// DiskChild is this test program once more, as a child that works on a disk until it
// is killed and tells over a pipe what happened to which block; and what a parent
// needs to hold the disk against that afterwards.
//
// REQUIRES: the program's main() hands "--child" arguments on before GoogleTest.
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

// What a child says of the block with this number.
struct DiskReport {
  enum class What : uint64_t {
    kDurable,    // Put, and told so by the tier.
    kDropped,    // About to be unreadable: reclaimed, erased or damaged.
    kForgotten,  // Every block is: the disk is about to be made anew.
    kHits,       // The kill point `number` was reached `count` times in this life.
  };
  What what = What::kDurable;
  uint64_t number = 0;
  uint64_t count = 0;
};
static_assert(sizeof(DiskReport) == 24);  // Below PIPE_BUF: one write is never torn.

// In the child. Ends the process when the parent is gone.
void TellParent(const DiskReport& report);

// Not thread-safe.
class DiskChild {
 public:
  // Starts /proc/self/exe with these words behind its name. nullptr: the system refused.
  static std::unique_ptr<DiskChild> Start(std::vector<std::string> words);
  ~DiskChild();  // Kills it, if it still runs.
  DiskChild(const DiskChild&) = delete;
  DiskChild& operator=(const DiskChild&) = delete;

  // The next report, awaited. nullopt: the child has ended and all were read.
  std::optional<DiskReport> Next();
  void Kill();  // SIGKILL.
  // Its exit status, or minus the signal that ended it; awaited.
  int Wait();

 private:
  DiskChild(pid_t pid, int reports) : pid_(pid), reports_(reports) {}

  const pid_t pid_;
  const int reports_;
  std::optional<int> ended_;
};

// The blocks of which the last word was that they are durable.
class DurableBlocks {
 public:
  void Take(const DiskReport& report);
  const std::set<uint64_t>& numbers() const { return numbers_; }

 private:
  std::set<uint64_t> numbers_;
};

// Reads each of these blocks. Errors: the first that is not there, not readable, or
// (kInternal) not itself. `tier` and `numbers` outlive the task.
Task<absl::Status> ReadBlocks(DiskTier* tier, const std::set<uint64_t>& numbers,
                              uint64_t (*length_of)(uint64_t));

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TIER_DISK_DISK_CHILD_H_
