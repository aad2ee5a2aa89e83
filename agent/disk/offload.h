// Offloader writes blocks of host memory to disk, in the background, so that they outlive
// eviction and, as far as they were written, kill -9. DiskAdmission says which blocks. An eviction
// never waits for the Offloader. A put whose blocks would be promised to the disks first takes room
// for them (DiskPromises).
//
// With writes at commit, blocks are offered in the order of their commits. A block that is not on
// disk is offered again whenever it is hit in memory. A block that was put although a disk had it
// is queued, too: its copy on the disk is proven, and replaced if it is damaged (DiskTier::Put). An
// admitted block is promised: it stays in host memory until it is written, the write has failed, or
// its disk has left the service and no other disk takes it. Domains take turns (FairLine). With
// writes at eviction, the coldest blocks are offered ahead of need (ColdEnd), and nothing is
// promised: a block that has to leave before its turn is lost, and counted.
//
// Executor thread only.
#ifndef KVTIER_AGENT_DISK_OFFLOAD_H_
#define KVTIER_AGENT_DISK_OFFLOAD_H_

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "agent/agent_stats.h"
#include "agent/disk/disk_admission.h"
#include "agent/disk/disk_promises.h"
#include "agent/index/block_changes.h"
#include "agent/index/block_index.h"
#include "agent/index/cold_end.h"
#include "agent/index/host_prover.h"
#include "agent/tenants.h"
#include "core/byte_threads.h"
#include "core/executor.h"
#include "core/fair_line.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/waits.h"
#include "tier_disk/disk_set.h"

namespace kvtier {

class Offloader final : public BlockFollower {
 public:
  struct Parts {
    Executor* executor = nullptr;
    ByteThreads* byte_threads = nullptr;
    TaskScope* scope = nullptr;
    Waits* waits = nullptr;
    const TenantTable* tenants = nullptr;
    BlockChanges* changes = nullptr;  // Followed from the start.
    BlockIndex* index = nullptr;
    HostTier* host = nullptr;
    DiskSet* disks = nullptr;
    DiskAdmission* admission = nullptr;
    DiskPromises* promises = nullptr;
    HostProver* prover = nullptr;
    OffloadStats* stats = nullptr;
  };
  // Does not own.
  explicit Offloader(const Parts& parts);

  // Returns whether a put of the block is to take room in DiskPromises, because the block may be
  // promised to the disks.
  bool WouldPromise(const BlockKey& key, uint64_t block_bytes) const;
  // Notes that a block of a put is in host memory; `room` is what its put took, if any.
  void Committed(const BlockKey& key, DiskQueueRoom room);
  // Notes that a worker was just given these blocks of host memory. `run` is the result of
  // BlockIndex::Touch().
  void Used(std::span<const HostBlock* const> run);
  void OnChange(const BlockChange& change) override;
  // Gives the domain's blocks `weight` times the turns of a domain of weight 1, which is the weight
  // that it has at first.
  void SetWeight(DomainId domain, uint32_t weight) {
    queue_.SetWeight(static_cast<size_t>(domain), weight);
  }
  // Ends the promises of the domain's blocks, except of those that are being written.
  void Forget(DomainId domain);

  // Waits until none of `keys` waits for its turn or is being written; returns how many of
  // them are on disk then, or at `deadline`. Counts only blocks of disks that confirm in time,
  // after the last write, that the next start will find their files.
  Task<size_t> AwaitDurable(std::vector<BlockKey> keys, absl::Time deadline);

  // Starts writes while there is room. Also called when a disk went out of service, because the
  // puts that it holds up then no longer count, and its promises end.
  void Pump();
  // Returns the number of blocks that wait for their turn or are being written.
  size_t pending() const { return pending_.size(); }
  void Audit() const;

 private:
  // Promise is a block that DiskAdmission admitted, and that is pinned in host memory until it is
  // written.
  struct Promise {
    BlockMeta meta;
    WriteCandidate candidate;
    DiskAdmission::Verdict verdict;
    Pin pin;
    DomainId domain{};
    DiskQueueRoom room{};  // Room of the promise; empty with writes at eviction.
  };
  // Durable is one call of AwaitDurable().
  struct Durable {
    explicit Durable(Executor* executor) : ended(executor) {}
    size_t left = 0;  // Blocks, and then disks, that the call still waits for.
    Event ended;
    absl::flat_hash_set<size_t> confirmed;  // Disks that confirmed.
  };
  bool at_commit() const { return parts_.admission->options().moment == WriteMoment::kAtCommit; }
  // Returns whether a disk has the block already, and no put of it has come since.
  bool IsDone(const BlockKey& key) const {
    return parts_.index->In(Tier::kDisk, key) && !unproven_.contains(key);
  }
  // Returns whether Judge() may admit the block.
  bool MayAdmit(const WriteCandidate& candidate) const;
  void Offer(const BlockKey& key, DiskQueueRoom room);
  WriteCandidate CandidateFor(const BlockKey& key, uint64_t length, uint32_t host_hits) const;
  // Asks DiskAdmission, and counts what it refuses.
  std::optional<DiskAdmission::Verdict> Decide(const WriteCandidate& candidate);
  // Admits a block that a disk has, to that disk, and decides about any other.
  std::optional<DiskAdmission::Verdict> Judge(const WriteCandidate& candidate);
  // REQUIRES: the block is in host memory and not pending.
  std::optional<Promise> Admit(const BlockKey& key);
  // Puts the promise in line for its turn.
  void Queue(Promise promise);
  std::optional<Promise> TakeNext();
  // Ends the promises of disks that left the service, unless another disk takes them over.
  void EndBroken();
  Task<void> PumpSoon();
  Task<void> Run(Promise promise);
  Task<void> Write(const Promise& promise);
  // Asks a disk to confirm, and tells the call.
  Task<void> Confirm(size_t disk, std::shared_ptr<Durable> durable);
  // Ends a promise: its block is no longer pending, and calls that wait for it are told.
  void End(const Promise& promise);

  const Parts parts_;
  FairLine<Promise> queue_;  // Promised blocks that wait, by domain; used with writes at commit.
  std::optional<ColdEnd> cold_end_;  // Set with writes at eviction.
  // Promises that are being written; they lie in their tasks' frames.
  std::list<Promise*> running_;
  // Blocks in the queue or running, which are not offered again.
  absl::flat_hash_set<BlockKey> pending_;
  // Blocks of host memory that were put while a disk had them, whose copies there are not proven.
  absl::flat_hash_set<BlockKey> unproven_;
  // Parents of pending blocks, each with the number of its pending children. When a parent is
  // judged, these children count as on disk already.
  absl::flat_hash_map<BlockKey, size_t> parents_of_pending_;
  absl::flat_hash_map<BlockKey, std::vector<std::shared_ptr<Durable>>> awaited_;
  std::vector<bool> serving_;  // Whether each disk served at the last Pump().
  bool pumping_ = false;
  bool pumping_soon_ = false;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_DISK_OFFLOAD_H_
