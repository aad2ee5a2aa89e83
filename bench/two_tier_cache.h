// TwoTierCache replays a trace through host memory and a disk, with the decisions that
// the agent makes: LRU leaves in host memory, Admission before each write.
//
// A request hits its longest prefix held in either tier; then all its blocks are put
// into host memory or made the most recent there. A disk hit leaves the disk's copy.
// Transfers take no time, and the blocks of the request under way are not evicted.
#ifndef KVTIER_BENCH_TWO_TIER_CACHE_H_
#define KVTIER_BENCH_TWO_TIER_CACHE_H_

#include <cstdint>
#include <vector>

#include "bench/disk_model.h"
#include "bench/trace.h"
#include "core/lru_leaves.h"
#include "tier_disk/admission/admission.h"
#include "tier_disk/admission/write_budget.h"

namespace kvtier::bench {

struct ReplayResult {
  uint64_t tokens = 0;         // Of all prompts.
  uint64_t host_tokens = 0;    // Served from host memory.
  uint64_t disk_tokens = 0;    // Served from the disk.
  uint64_t disk_served = 0;    // Blocks.
  uint64_t disk_admitted = 0;  // Blocks that Admission let through.
  uint64_t disk_written = 0;   // Blocks, those that reclaim wrote again included.
};

class TwoTierCache {
 public:
  // Does not own its arguments.
  TwoTierCache(const Trace& trace, uint64_t host_blocks, DiskModel* disk, Admission* admission,
               WriteBudget* budget);
  // Every request of the trace, in order. REQUIRES: called once.
  ReplayResult Replay();

  // What a block's record is taken to be: the size of none matters, they are all alike.
  static constexpr uint64_t kRecordBytes = uint64_t{1} << 20;

 private:
  void CountHits(const TraceRequest& request);
  void PutInHost(const TraceRequest& request);
  void EvictFromHost();
  // Writes `block` if the disk has no copy and Admission wants one.
  void Offer(uint32_t block);

  const Trace& trace_;
  const uint64_t host_blocks_;
  DiskModel* const disk_;
  Admission* const admission_;
  WriteBudget* const budget_;
  LruLeaves host_;
  std::vector<uint32_t> host_hits_;  // By block, since it came into host_.
  absl::Time now_;
  ReplayResult result_;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_TWO_TIER_CACHE_H_
