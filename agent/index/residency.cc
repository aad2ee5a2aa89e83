#include "agent/index/residency.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "agent/index/gpu_blocks.h"
#include "core/check.h"
#include "core/event.h"
#include "core/kill_point.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "proto/residency_words.h"

namespace kvtier {
namespace {

bool IsFull(uint64_t blocks, uint32_t log2_buckets) {
  return blocks > (uint64_t{kResidencyLoad} << log2_buckets);
}

// Returns an empty table whose memory is taken.
absl::StatusOr<std::unique_ptr<ResidencyTable>> MakeTable(const std::string& name,
                                                          uint32_t log2_buckets) {
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<ResidencyTable> table,
                       ResidencyTable::Create(name, log2_buckets));
  KVT_RETURN_IF_ERROR(table->Populate(0, table->buckets()));
  return table;
}

void LogFailure(const std::string& name, const absl::Status& why) {
  Log(LogLevel::kError,
      absl::StrCat("the residency table of ", name, " could not be made or enlarged, so workers ",
                   "find some blocks only by a call: ", why.message()));
}

}  // namespace

Residency::Residency(const Parts& parts, uint32_t max_log2_buckets)
    : parts_(parts), max_log2_buckets_(max_log2_buckets) {
  for (const Tenant* const tenant : parts_.tenants->All()) {
    KVT_CHECK(static_cast<size_t>(tenant->domain) == domains_.size());
    AddDomain(tenant->name);
  }
  parts_.changes->Follow(this);
}

void Residency::AddDomain(const std::string& tenant) {
  Domain& domain = domains_.emplace_back();
  domain.name = absl::StrCat("kvtier-residency-", tenant);
  auto table = MakeTable(domain.name, std::min(kMinResidencyLog2Buckets, max_log2_buckets_));
  if (table.ok()) {
    domain.table = *std::move(table);
  } else {
    LogFailure(tenant, table.status());
  }
}

void Residency::DropDomain(DomainId id) {
  Domain& domain = At(id);
  domain.dropped = true;
  if (domain.table == nullptr || domain.growing) return;
  domain.table->Retire();
  domain.table.reset();
}

void Residency::OnChange(const BlockChange& change) {
  // A tenant that this node serves no more has no table.
  if (!change.domain.has_value()) return;
  if (change.delta.kind == Delta::Kind::kAdd) {
    Add(*change.domain, change.delta.tier, change.delta.key);
  } else {
    Remove(*change.domain, change.delta.tier, change.delta.key);
  }
}

void Residency::Add(DomainId id, Tier tier, const BlockKey& key) {
  Domain& domain = At(id);
  if (domain.table == nullptr) return;
  domain.table->Add(key, tier);
  if (domain.next != nullptr && domain.table->bucket_of(key) < domain.taken_over) {
    domain.next->Add(key, tier);
  }
  if (!domain.growing && WantsMore(domain)) parts_.scope->Spawn(Grow(&domain));
}

void Residency::Remove(DomainId id, Tier tier, const BlockKey& key) {
  Domain& domain = At(id);
  if (domain.table == nullptr) return;
  domain.table->Remove(key, tier);
  if (domain.next != nullptr && domain.table->bucket_of(key) < domain.taken_over) {
    domain.next->Remove(key, tier);
  }
}

void Residency::Expect(DomainId id, uint64_t blocks) {
  Domain& domain = At(id);
  if (domain.table == nullptr) return;
  KVT_CHECK(domain.table->blocks() == 0 && !domain.growing);
  uint32_t log2_buckets = domain.table->log2_buckets();
  while (log2_buckets < max_log2_buckets_ && IsFull(blocks, log2_buckets)) ++log2_buckets;
  if (log2_buckets == domain.table->log2_buckets()) return;
  auto table = MakeTable(domain.name, log2_buckets);
  if (table.ok()) {
    domain.table = *std::move(table);
  } else {
    LogFailure(domain.name, table.status());
  }
}

bool Residency::WantsMore(const Domain& domain) const {
  return !stopped_ && !domain.dropped && domain.table->log2_buckets() < max_log2_buckets_ &&
         IsFull(domain.table->blocks(), domain.table->log2_buckets()) &&
         parts_.executor->Now() >= domain.grow_after;
}

Task<void> Residency::Grow(Domain* domain) {
  domain->growing = true;
  while (WantsMore(*domain)) {
    const absl::Status filled = co_await FillNext(domain);
    if (!filled.ok()) {
      domain->next.reset();
      if (stopped_ || domain->dropped) break;
      // The failure is logged once, not at each later try.
      if (domain->grow_after == absl::InfinitePast()) LogFailure(domain->name, filled);
      domain->grow_after = parts_.executor->Now() + kResidencyRetryInterval;
      break;
    }
    // Workers must get the new table when the retired word of the old one makes them ask again.
    std::unique_ptr<ResidencyTable> old = std::exchange(domain->table, std::move(domain->next));
    KVT_KILL_POINT("residency.replaced");
    old->Retire();
    KVT_KILL_POINT("residency.retired");
    co_await Dissolve(std::move(old));
  }
  domain->growing = false;
  if (domain->dropped) {
    domain->table->Retire();
    domain->table.reset();
  }
}

Task<void> Residency::Dissolve(std::unique_ptr<ResidencyTable> table) {
  for (size_t first = 0; first < table->buckets() && !stopped_;) {
    const size_t count = std::min(kBucketsTakenOverPerTurn, table->buckets() - first);
    table->Release(first, count);
    first += count;
    co_await SleepUntil(parts_.executor, parts_.executor->Now());
  }
}

Task<absl::Status> Residency::FillNext(Domain* domain) {
  absl::StatusOr<std::unique_ptr<ResidencyTable>> made =
      ResidencyTable::Create(domain->name, domain->table->log2_buckets() + 1);
  if (!made.ok()) co_return made.status();
  domain->next = *std::move(made);
  domain->taken_over = 0;
  KVT_KILL_POINT("residency.next_made");
  while (domain->taken_over < domain->table->buckets()) {
    co_await SleepUntil(parts_.executor, parts_.executor->Now());
    if (stopped_ || domain->dropped) {
      co_return absl::CancelledError("the residency table is not needed any more");
    }
    const size_t count =
        std::min(kBucketsTakenOverPerTurn, domain->table->buckets() - domain->taken_over);
    KVT_CO_RETURN_IF_ERROR(domain->next->Populate(2 * domain->taken_over, 2 * count));
    for (size_t i = 0; i < count; ++i) {
      domain->next->TakeOver(*domain->table, domain->taken_over++);
    }
    KVT_KILL_POINT("residency.buckets_taken_over");
  }
  co_return absl::OkStatus();
}

uint64_t Residency::memory_bytes() const {
  uint64_t bytes = 0;
  for (const Domain& domain : domains_) {
    for (const ResidencyTable* table : {domain.table.get(), domain.next.get()}) {
      if (table != nullptr) bytes += table->memory().bytes().size();
    }
  }
  return bytes;
}

size_t Residency::blocks_in(Tier tier) const {
  size_t count = 0;
  for (const Domain& domain : domains_) {
    if (domain.table != nullptr && !domain.dropped) count += domain.table->blocks_in(tier);
  }
  return count;
}

void Residency::Audit() const {
  for (const Domain& domain : domains_) {
    if (domain.table != nullptr) domain.table->Audit();
    if (domain.next == nullptr) continue;
    domain.next->Audit();
    KVT_CHECK(domain.next->blocks() == domain.table->CountBlocks(domain.taken_over));
  }
}

void Residency::AuditMemory(const BlockIndex& index) const {
  size_t in_host = 0;
  index.ForEachInHost([&](const HostBlock& block) {
    const ResidencyTable* const told = table(block.slot.domain());
    if (told == nullptr) return;
    KVT_CHECK(told->Has(block.meta.key, Tier::kHost));
    ++in_host;
  });
  KVT_CHECK(blocks_in(Tier::kHost) == in_host);
  absl::flat_hash_set<BlockKey> in_pools;  // A block may be in several.
  for (const GpuBlocks* const pool : index.pools()) {
    const ResidencyTable* const told = table(pool->domain());
    if (told == nullptr) continue;
    pool->ForEach([&](const GpuBlock& block) {
      KVT_CHECK(told->Has(block.meta.key, Tier::kGpu));
      in_pools.insert(block.meta.key);
    });
  }
  KVT_CHECK(blocks_in(Tier::kGpu) == in_pools.size());
}

void Residency::AuditDisks(const DiskSet& disks) const {
  // While a disk comes or goes, its blocks are reported a few in each turn.
  if (!disks.settled()) return;
  size_t expected = 0;
  for (const BlockKey& key : disks.Keys()) {
    const std::optional<DomainId> domain = parts_.tenants->DomainOf(*disks.OwnerOf(key));
    if (!domain.has_value() || table(*domain) == nullptr) continue;
    KVT_CHECK(table(*domain)->Has(key, Tier::kDisk));
    ++expected;
  }
  KVT_CHECK(blocks_in(Tier::kDisk) == expected);
}

}  // namespace kvtier
