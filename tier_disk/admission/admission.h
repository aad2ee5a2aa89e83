// Admission decides whether a block in host memory is written to the disk. Every write wears the
// drive and brings the oldest segment closer to its reclaim, and most blocks are never requested
// again.
//
//   enters host memory   admission.Entered(key)
//   at the moment        if (admission.Decide(candidate, now) == WriteDecision::kWrite) put
//
// Candidates are blocks of which the disk has no copy. At eviction a block is a candidate once for
// each time it leaves; at commit, a block that was refused is a candidate again at each hit.
//
// A block whose child the disk has is always written, even if the budget goes into debt: without it
// the child, and everything below, could not be served. Blocks leave host memory children first, so
// the decision for a prefix falls at its last block and then holds for all of it. Half a prefix is
// worth little, while half of the prefixes is worth half.
//
// Pure: no I/O, no clock, deterministic. Executor thread only. Memory is fixed: options.seen_bytes
// and some 300 KiB.
#ifndef KVTIER_TIER_DISK_ADMISSION_ADMISSION_H_
#define KVTIER_TIER_DISK_ADMISSION_ADMISSION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/block_key.h"
#include "tier_disk/admission/reuse_predictor.h"
#include "tier_disk/admission/reuse_ranking.h"
#include "tier_disk/admission/seen_keys.h"
#include "tier_disk/admission/write_budget.h"

namespace kvtier {

// Policy that says which blocks are worth a write. The budget has the last word on each of them.
enum class WritePolicy : uint8_t {
  kAll,          // Every block.
  kSecondTouch,  // Blocks hit in host memory, or that were candidates before and came back since.
  kPredictedReuse,  // The blocks most likely to be requested again, as many as the budget pays for.
};

// Moment when the agent asks.
enum class WriteMoment : uint8_t {
  kAtCommit,    // Inclusive: the disk has what was committed, also after kill -9.
  kAtEviction,  // Lazy: only blocks that leave host memory and have no copy on the disk.
};

enum class WriteDecision : uint8_t { kWrite, kNotWorthIt, kOverBudget };

struct AdmissionOptions {
  WritePolicy policy = WritePolicy::kPredictedReuse;
  WriteMoment moment = WriteMoment::kAtCommit;
  // Room for records. It determines a block's lifetime: a block is overwritten once this many bytes
  // have been written after it.
  uint64_t disk_bytes = 0;
  // Memory for keys of earlier candidates: 4 MiB remember the last 1.6 million for certain.
  uint64_t seen_bytes = uint64_t{4} << 20;

  // Returns kInvalidArgument, naming the field and its value, if a field is out of range.
  absl::Status Validate() const;
};

// Block that could be written, and what the caller knows of it.
struct WriteCandidate {
  BlockKey key;
  uint64_t record_bytes = 0;    // Bytes of the record, header and padding included.
  uint32_t host_hits = 0;       // Number of hits since it came into host memory.
  bool disk_has_child = false;  // Whether a block with this parent is on the disk.
};

class Admission {
 public:
  // Number of blocks by decision.
  struct Tally {
    uint64_t write = 0;
    uint64_t not_worth_it = 0;
    uint64_t over_budget = 0;
  };

  // Makes an admission. Does not own `budget`, which must outlive it and whose written_bytes() must
  // count every record written to the disk (reclaim charges its own). REQUIRES:
  // options.Validate().ok().
  Admission(const AdmissionOptions& options, WriteBudget* budget);

  // Notes that `key` came into host memory: committed by a worker, or onboarded from the disk or a
  // peer. Call it before a Decide() at commit.
  void Entered(const BlockKey& key);
  // Returns false if Decide() would refuse the block now. True: it may or may not.
  bool MayWrite(const WriteCandidate& candidate, absl::Time now) const;
  // Decides on a block, and remembers its key in any case. kWrite: the budget is charged; write it.
  // kNotWorthIt: the policy refuses. kOverBudget: the policy would write it, but the budget cannot
  // pay.
  WriteDecision Decide(const WriteCandidate& candidate, absl::Time now);

  WriteMoment moment() const { return options_.moment; }
  const Tally& tally() const { return tally_; }

 private:
  WriteDecision Judge(const WriteCandidate& candidate, absl::Time now);
  bool IsWorthIt(const WriteCandidate& candidate, absl::Time now);
  bool IsAmongTheLikeliest(const WriteCandidate& candidate, absl::Time now);

  const AdmissionOptions options_;
  WriteBudget* const budget_;  // Borrowed.
  SeenKeys seen_;
  ReusePredictor predictor_;
  ReuseRanking ranking_;
  Tally tally_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_ADMISSION_ADMISSION_H_
