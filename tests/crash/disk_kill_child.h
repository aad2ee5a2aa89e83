// Declares the child of disk_kill_points_test: a process that opens a small disk, works on it,
// closes it and starts over, until a kill point ends it.
#ifndef KVTIER_TESTS_CRASH_DISK_KILL_CHILD_H_
#define KVTIER_TESTS_CRASH_DISK_KILL_CHILD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/block_key.h"
#include "tier_disk/directory/open_disk.h"

namespace kvtier::testing {

// Number of blocks from which the child draws: about twice what the disk holds, so that reclaim
// never rests and the same block is put at many places.
inline constexpr uint64_t kKillBlocks = 400;

struct KillPlan {
  std::string directory;
  DiskIoKind io = DiskIoKind::kPread;
  uint64_t seed = 1;
  uint64_t opens = 1;  // Number of openings after which the child ends by itself.
  uint64_t steps = 1;  // Number of steps between opening and closing.
  bool renew = false;  // Whether to damage or remove the manifest before each opening.
  std::string place;   // Empty: none, and the hits are reported at the end.
  uint64_t nth = 1;
};

DiskLayout KillLayout(const std::string& directory);
uint64_t KillBlockLength(uint64_t number);
// Returns the number of a key. REQUIRES: the key is of one of the kKillBlocks.
uint64_t KillBlockNumber(const BlockKey& key);

// Convert the plan to the arguments of a command line, "--child" first, and back.
std::vector<std::string> KillWords(const KillPlan& plan);
KillPlan ParseKillWords(const std::vector<std::string>& words);

// Exit status of the child: 0, it was not killed; kWrongBytes; 2, the disk failed.
inline constexpr int kDiskFailed = 2;
inline constexpr int kWrongBytes = 4;
int RunKillChild(const KillPlan& plan);

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_CRASH_DISK_KILL_CHILD_H_
