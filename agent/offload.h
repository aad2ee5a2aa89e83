// Offloader writes blocks of host memory to disk, in the background, so that they outlive
// eviction and, as far as they were written, kill -9. DiskAdmission says which. It never
// slows a put or an eviction: a full queue, a disk that is behind or one that cannot take
// more declines, and counts.
//
// At commit: blocks are offered in the order of their commits, and one that is not on disk
// again whenever it is hit in memory. At eviction: the coldest are offered ahead of need
// (ColdEnd); one that has to leave before its turn is lost, and counted.
//
// Executor thread only.
#ifndef KVTIER_AGENT_OFFLOAD_H_
#define KVTIER_AGENT_OFFLOAD_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "agent/agent_stats.h"
#include "agent/block_index.h"
#include "agent/cold_end.h"
#include "agent/disk_admission.h"
#include "agent/tenants.h"
#include "core/byte_workers.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "tier_disk/disk_set.h"

namespace kvtier {

class Offloader {
 public:
  struct Parts {
    Executor* executor = nullptr;
    ByteWorkers* workers = nullptr;
    TaskScope* scope = nullptr;
    const TenantTable* tenants = nullptr;
    BlockIndex* index = nullptr;
    HostTier* host = nullptr;
    DiskSet* disks = nullptr;
    DiskAdmission* admission = nullptr;
    OffloadStats* stats = nullptr;
  };
  // Does not own.
  explicit Offloader(const Parts& parts);

  // A block of a put is in host memory.
  void Committed(const BlockKey& key);
  // The leading blocks of this node's memory or disks that a worker was just given, after
  // BlockIndex::Touch() of the same run.
  void Used(std::span<const BlockKey> run);
  // Every change that the index tells of, inside it: reads the index, starts nothing.
  void OnDelta(const Delta& delta);

  // Starts writes while there is room. To be called also when a disk went out of service:
  // the puts that it holds up count no longer. A write that ends at once calls it again
  // from within: the outer one goes on, or a long queue would overflow the stack.
  void Pump();
  // Waiting for their turn or being written.
  size_t pending() const { return queue_.size() + running_; }
  void Audit() const;

 private:
  // A block that DiskAdmission let pass.
  struct Admitted {
    BlockMeta meta;
    WriteCandidate candidate;
    DiskAdmission::Verdict verdict;
  };
  bool at_commit() const { return parts_.admission->options().moment == WriteMoment::kAtCommit; }
  void Queue(const BlockKey& key);
  std::optional<BlockKey> TakeNext();
  Task<void> PumpSoon();
  Task<void> Run(BlockKey key);
  Task<void> Offer(BlockKey key);
  std::optional<Admitted> Admit(const BlockMeta& meta, uint32_t host_hits);
  Task<void> Write(Admitted admitted, std::span<const std::byte> slot);

  const Parts parts_;
  std::deque<BlockKey> queue_;             // At commit.
  std::optional<ColdEnd> cold_end_;        // At eviction.
  absl::flat_hash_set<BlockKey> pending_;  // In the queue or running: not offered twice.
  // Parents of the blocks being written, and how many of those each has: their children
  // count as on disk already when they are judged.
  absl::flat_hash_map<BlockKey, size_t> parents_of_running_;
  size_t running_ = 0;
  bool pumping_ = false;
  bool pumping_soon_ = false;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_OFFLOAD_H_
