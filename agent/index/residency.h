// Residency says to workers, without a call, what is on this node: it keeps a table for each
// isolation domain in memory that the domain's workers map (ResidencyTable). It follows the index
// (BlockChanges) in the turn of the executor in which a change happens, so that a change is in the
// table before a worker reads an answer that tells of it.
//
// A table that gets full is replaced by one of twice the size, which is filled a few buckets a turn
// while both are kept up to date. Without memory for it the domain keeps the table that it has,
// which says "perhaps" more often. Nothing of a domain is ever in the table of another.
//
// Executor thread only. Invariants, checked by Audit(): those of each table; while a domain grows,
// both of its tables have the same blocks in the buckets that were taken over.
#ifndef KVTIER_AGENT_INDEX_RESIDENCY_H_
#define KVTIER_AGENT_INDEX_RESIDENCY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/index/block_changes.h"
#include "agent/index/block_index.h"
#include "agent/index/residency_table.h"
#include "agent/limits.h"
#include "agent/tenants.h"
#include "core/block_key.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/tier.h"
#include "tier_disk/disk_set.h"
#include "tier_host/host_tier.h"
#include "tier_host/sealed_memory.h"

namespace kvtier {

class Residency final : public BlockFollower {
 public:
  // Parts are objects that the residency uses and does not own.
  struct Parts {
    Executor* executor = nullptr;
    TaskScope* scope = nullptr;  // Scope of the tasks that fill tables.
    const TenantTable* tenants = nullptr;
    BlockChanges* changes = nullptr;  // Followed from the start.
  };
  // Makes the table of each tenant's domain, as AddDomain() does. No table gets more than
  // 2^max_log2_buckets buckets.
  explicit Residency(const Parts& parts, uint32_t max_log2_buckets = kMaxResidencyLog2Buckets);

  // Makes an empty table for the next domain, which is the tenant's. If the table cannot be made,
  // that is logged, and the domain has none.
  void AddDomain(const std::string& tenant);
  // Drops the domain's table, and retires it, so that its readers see that it is out of date.
  void DropDomain(DomainId domain);

  // Adds or removes what the change says.
  void OnChange(const BlockChange& change) override;
  void PrefetchCacheLines(DomainId domain, const BlockKey& key) const override {
    if (table(domain) != nullptr) table(domain)->PrefetchCacheLines(key);
  }
  // Enters that the tier has the block, or has it no longer. Entering it twice changes nothing.
  void Add(DomainId domain, Tier tier, const BlockKey& key);
  void Remove(DomainId domain, Tier tier, const BlockKey& key);
  // Makes the domain's table large enough for so many blocks, at once. REQUIRES: nothing is in it,
  // and nobody has been handed its memory.
  void Expect(DomainId domain, uint64_t blocks);

  // Returns the domain's current table; nullptr: it has none. Valid until the next turn.
  const ResidencyTable* table(DomainId domain) const {
    return At(domain).dropped ? nullptr : At(domain).table.get();
  }
  // Returns the bytes of all tables, those that are being filled included.
  uint64_t memory_bytes() const;
  // Ends all growth: gives up the tables that are being filled, within a turn, and begins none.
  void Stop() { stopped_ = true; }
  // Counts the blocks of the tier in all tables.
  size_t blocks_in(Tier tier) const;
  void Audit() const;
  // Aborts when the tables do not have what host memory and the GPU pools have.
  void AuditMemory(const BlockIndex& index) const;
  // Aborts when the tables do not have what the disks have.
  void AuditDisks(const DiskSet& disks) const;

 private:
  struct Domain {
    std::string name;
    std::unique_ptr<ResidencyTable> table;  // nullptr: it could not be made.
    std::unique_ptr<ResidencyTable> next;   // Larger one being filled; nullptr: none.
    size_t taken_over = 0;                  // Leading buckets of `table` that `next` has.
    bool growing = false;                   // Grow() runs.
    bool dropped = false;  // Whether the table goes as soon as Grow() does not run.
    absl::Time grow_after = absl::InfinitePast();  // Growth is not tried again before this.
  };
  Domain& At(DomainId domain) { return domains_.at(static_cast<size_t>(domain)); }
  const Domain& At(DomainId domain) const { return domains_.at(static_cast<size_t>(domain)); }
  bool WantsMore(const Domain& domain) const;
  // Fills larger tables until the domain has one that is large enough.
  Task<void> Grow(Domain* domain);
  // Gives the memory of a table back that was replaced, a few buckets a turn: all at once it takes
  // tens of milliseconds.
  Task<void> Dissolve(std::unique_ptr<ResidencyTable> table);
  // Fills `next`, a few buckets a turn. Errors: kResourceExhausted, and kCancelled after Stop().
  Task<absl::Status> FillNext(Domain* domain);

  const Parts parts_;
  const uint32_t max_log2_buckets_;
  // Domains by DomainId, in a deque so that the address of a growing one never changes.
  std::deque<Domain> domains_;
  bool stopped_ = false;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_RESIDENCY_H_
