// DiskAdmission decides whether a block of host memory is to be written to the disk where it
// belongs. It has an Admission and a WriteBudget for each disk. What reclaim writes again is
// charged to its own disk. It writes nothing and keeps no list of blocks.
//
// Pure: time comes in as an argument. Executor thread only.
#ifndef KVTIER_AGENT_DISK_DISK_ADMISSION_H_
#define KVTIER_AGENT_DISK_DISK_ADMISSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "core/block_key.h"
#include "tier_disk/admission/admission.h"
#include "tier_disk/admission/write_budget.h"
#include "tier_disk/disk_set.h"

namespace kvtier {

// DiskWriteOptions choose the blocks that are written to the disks. By default every block is
// written at its commit, so that all are recovered after kill -9; under a budget, those that are
// likeliest to be used again. docs/results/2026-11-21-write-policy.md says what other choices cost.
struct DiskWriteOptions {
  WritePolicy policy = WritePolicy::kPredictedReuse;
  WriteMoment moment = WriteMoment::kAtCommit;
  // Number of times a day that each disk may be written whole, 0 to kMaxDriveWritesPerDay. It
  // includes the blocks that reclaim writes again. 0: no budget, because only the operator knows
  // the drive's rating.
  double drive_writes_per_day = 0;
};

// Return the names "all", "second_touch" and "predicted_reuse", and "commit" and "eviction".
const char* WritePolicyName(WritePolicy policy);
const char* WriteMomentName(WriteMoment moment);

class DiskAdmission {
 public:
  struct Verdict {
    size_t disk = 0;  // Number in the DiskSet of the disk where the block belongs.
    WriteDecision decision = WriteDecision::kWrite;
  };
  // Does not own `disks`. REQUIRES: drive_writes_per_day is in its range.
  DiskAdmission(const DiskWriteOptions& options, const DiskSet* disks);

  // Notes that the block came into host memory: committed, or onboarded from a disk or a peer. Call
  // it before a Decide() at commit.
  void Entered(const BlockKey& key);
  // Returns false if no disk serves, or Decide() would refuse the block now.
  bool MayWrite(const WriteCandidate& candidate, absl::Time now) const;
  // Decides about a block. nullopt: no disk serves. kWrite: the disk's budget was charged, and the
  // caller is to write the block.
  std::optional<Verdict> Decide(const WriteCandidate& candidate, absl::Time now);
  // Notes that the block of a kWrite verdict is on disk. If another disk than the verdict's took
  // the block, that disk's budget is charged as well. The first disk may have been written to, so
  // its charge stays.
  void Landed(const WriteCandidate& candidate, const Verdict& verdict, absl::Time now);

  const DiskWriteOptions& options() const { return options_; }
  // Budget of one disk; nullopt: it has none.
  struct Left {
    uint64_t bytes_per_day = 0;
    uint64_t bytes = 0;  // Bytes that may be written now, at most an hour's worth.
  };
  std::optional<Left> BudgetLeft(size_t disk, absl::Time now);

 private:
  struct Gate {
    Gate(const DiskWriteOptions& options, uint64_t disk_bytes);
    const uint64_t disk_bytes;
    WriteBudget budget;
    Admission admission;
    uint64_t charged_reappends = 0;  // Bytes.
  };
  // Charges what reclaim wrote again since the last time.
  void ChargeReappends(size_t disk, absl::Time now);

  const DiskWriteOptions options_;
  const DiskSet* const disks_;                // Not owned.
  std::vector<std::unique_ptr<Gate>> gates_;  // One gate for each disk.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_DISK_DISK_ADMISSION_H_
