// Admission decides whether a block in host memory is written to the disk. Every
// write wears the drive and pushes the oldest segment toward reclaim; most blocks are
// never asked for again.
//
//   enters host memory   admission.Entered(key)
//   at the moment        if (admission.Decide(candidate, now) == WriteDecision::kWrite) put
//
// Offered are blocks of which the disk has no copy. At eviction a block is offered once
// for each time it leaves; at commit, one that was refused is offered again at each hit.
//
// A block whose child the disk has is always written, on credit if need be: without it
// the child, and all below it, could not be served. Blocks leave host memory children
// first, so whether a prefix is kept is decided at its last block, and then holds for
// all of it. Half a prefix is worth little, half of the prefixes is worth half.
//
// Pure: no I/O, no clock, deterministic. Executor thread only. Memory is fixed:
// options.seen_bytes and some 300 KiB.
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

// Which blocks are worth a write. The budget has the last word on each of them.
enum class WritePolicy : uint8_t {
  kAll,             // Every block.
  kSecondTouch,     // Blocks hit in host memory, or offered before and come back since.
  kPredictedReuse,  // The likeliest to be asked for again, as many as the budget pays for.
};

// When the agent asks.
enum class WriteMoment : uint8_t {
  kAtCommit,    // Inclusive: the disk has what was committed, also after kill -9.
  kAtEviction,  // Lazy: only what leaves host memory and has no copy on the disk.
};

enum class WriteDecision : uint8_t { kWrite, kNotWorthIt, kOverBudget };

struct AdmissionOptions {
  WritePolicy policy = WritePolicy::kPredictedReuse;
  WriteMoment moment = WriteMoment::kAtCommit;
  // Room for records: the lifetime of a block is what is written until the log comes
  // round to it.
  uint64_t disk_bytes = 0;
  // For the memory of keys offered before: 4 MiB know the last 1.6 million for certain.
  uint64_t seen_bytes = uint64_t{4} << 20;

  // Errors: kInvalidArgument, naming the field and its value.
  absl::Status Validate() const;
};

// A block that could be written, and what its caller knows of it.
struct WriteCandidate {
  BlockKey key;
  uint64_t record_bytes = 0;    // Header and padding included.
  uint32_t host_hits = 0;       // Since it came into host memory.
  bool disk_has_child = false;  // A block whose parent it is, is on the disk.
};

class Admission {
 public:
  // Blocks decided on, by decision.
  struct Tally {
    uint64_t write = 0;
    uint64_t not_worth_it = 0;
    uint64_t over_budget = 0;
  };

  // Does not own `budget`, which must outlive it and whose written_bytes() must
  // count every record written to the disk (reclaim charges its own).
  // REQUIRES: options.Validate().ok().
  Admission(const AdmissionOptions& options, WriteBudget* budget);

  // `key` came into host memory: committed by a worker, or onboarded from the disk or
  // a peer. Call it before a Decide() at commit.
  void Entered(const BlockKey& key);
  // False: Decide() would refuse it now. True: it may or may not.
  bool MayWrite(const WriteCandidate& candidate, absl::Time now) const;
  // Refused or not, the key is remembered.
  // kWrite: the budget is charged; write it. kNotWorthIt: the policy refuses.
  // kOverBudget: the policy would write it, the budget cannot pay.
  WriteDecision Decide(const WriteCandidate& candidate, absl::Time now);

  WriteMoment moment() const { return options_.moment; }
  const Tally& tally() const { return tally_; }

 private:
  WriteDecision Judge(const WriteCandidate& candidate, absl::Time now);
  bool IsWorthIt(const WriteCandidate& candidate, absl::Time now);
  bool IsAmongTheLikeliest(const WriteCandidate& candidate, absl::Time now);

  const AdmissionOptions options_;
  WriteBudget* const budget_;  // Not owned.
  SeenKeys seen_;
  ReusePredictor predictor_;
  ReuseRanking ranking_;
  Tally tally_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_ADMISSION_ADMISSION_H_
