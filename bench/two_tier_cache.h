// TwoTierCache replays a trace through host memory of any policy and a disk, with the agent's
// Admission before each write.
//
// A request hits its longest prefix held in either tier; then host memory takes all its blocks. A
// disk hit leaves the disk's copy. A block that host memory refuses is offered to the disk as if it
// were evicted. Transfers take no time.
#ifndef KVTIER_BENCH_TWO_TIER_CACHE_H_
#define KVTIER_BENCH_TWO_TIER_CACHE_H_

#include <cstdint>
#include <vector>

#include "bench/disk_model.h"
#include "bench/policy/replayed_cache.h"
#include "bench/trace.h"
#include "tier_disk/admission/admission.h"
#include "tier_disk/admission/write_budget.h"

namespace kvtier::bench {

struct ReplayResult {
  uint64_t tokens = 0;         // Tokens of all prompts.
  uint64_t host_tokens = 0;    // Tokens served from host memory.
  uint64_t disk_tokens = 0;    // Tokens served from the disk.
  uint64_t disk_served = 0;    // Blocks served from the disk.
  uint64_t disk_admitted = 0;  // Blocks that Admission let through.
  uint64_t disk_written = 0;   // Blocks written, including those that reclaim wrote again.
};

class TwoTierCache {
 public:
  // Makes a cache. Does not own its arguments. REQUIRES: `host` is empty and was made for `trace`.
  TwoTierCache(const Trace& trace, ReplayedCache* host, DiskModel* disk, Admission* admission,
               WriteBudget* budget);
  // Serves every request of the trace, in order. REQUIRES: called once.
  ReplayResult Replay();

  // Size of each block's record. Its value has no effect, because all are equal.
  static constexpr uint64_t kRecordBytes = uint64_t{1} << 20;

 private:
  void CountHits(const TraceRequest& request);
  // Puts the request's blocks into host memory, and offers the disk those that leave it.
  void PutInHost(const TraceRequest& request);
  // Writes `block` if the disk has no copy and Admission wants one.
  void Offer(uint32_t block);

  const Trace& trace_;
  ReplayedCache* const host_;
  DiskModel* const disk_;
  Admission* const admission_;
  WriteBudget* const budget_;
  std::vector<uint32_t> host_hits_;  // Number of hits by block, since it came into host memory.
  absl::Time now_;
  ReplayResult result_;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_TWO_TIER_CACHE_H_
