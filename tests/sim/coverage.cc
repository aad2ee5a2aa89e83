#include "tests/sim/coverage.h"

#include <cstddef>

namespace kvtier::sim {
namespace {

void AddEach(const PolicyCounts& other, PolicyCounts* sum) {
  for (size_t policy = 0; policy < sum->size(); ++policy) (*sum)[policy] += other[policy];
}

uint64_t Of(const PolicyCounts& counts, EvictionPolicy policy) {
  return counts.at(static_cast<size_t>(policy));
}

}  // namespace

void Coverage::Add(const AgentStats& agent, uint64_t gpu_offloads, const TierStats& disk) {
  Add({.host_hits = agent.host.hits,
       .gpu_hits = agent.gpu.hits,
       .disk_hits = disk.hits,
       .fetched_blocks = agent.peers.fetched_blocks,
       .passed_blocks = agent.peers.passed_blocks,
       .host_evictions = agent.host.evictions,
       .gpu_evictions = agent.gpu.evictions,
       .gpu_offloads = gpu_offloads,
       .disk_evictions = disk.evictions,
       .damaged_records = disk.verify_failures,
       .damaged_fetches = agent.peers.verify_failures,
       .disk_errors = disk.io_errors,
       .gpu_errors = agent.gpu.io_errors,
       .fetch_timeouts = agent.peers.timeouts,
       .deadline_misses = agent.deadline_misses,
       .expired_leases = agent.expired_leases,
       .expired_reservations = agent.expired_reservations,
       .declined_offloads = agent.offload.disk_full + agent.offload.disk_failed,
       .unworthy_offloads = agent.offload.not_worth_it,
       .unpaid_offloads = agent.offload.over_budget,
       .late_offloads = agent.offload.evicted,
       .waiting_puts = agent.offload.waited,
       .unpromised_blocks = agent.offload.declined_behind,
       .declined_slots = agent.host.declined + agent.gpu.declined,
       .staged_blocks = agent.staged_blocks});
}

void Coverage::Add(const Coverage& other) {
  moved_slabs += other.moved_slabs;
  host_sizes += other.host_sizes;
  blocks_for_others += other.blocks_for_others;
  crashes += other.crashes;
  host_hits += other.host_hits;
  gpu_hits += other.gpu_hits;
  disk_hits += other.disk_hits;
  fetched_blocks += other.fetched_blocks;
  passed_blocks += other.passed_blocks;
  host_evictions += other.host_evictions;
  gpu_evictions += other.gpu_evictions;
  gpu_offloads += other.gpu_offloads;
  disk_evictions += other.disk_evictions;
  damaged_records += other.damaged_records;
  damaged_fetches += other.damaged_fetches;
  disk_errors += other.disk_errors;
  quarantines += other.quarantines;
  gpu_errors += other.gpu_errors;
  gpu_abandoned += other.gpu_abandoned;
  fetch_timeouts += other.fetch_timeouts;
  deadline_misses += other.deadline_misses;
  expired_leases += other.expired_leases;
  expired_reservations += other.expired_reservations;
  declined_offloads += other.declined_offloads;
  unworthy_offloads += other.unworthy_offloads;
  unpaid_offloads += other.unpaid_offloads;
  late_offloads += other.late_offloads;
  waiting_puts += other.waiting_puts;
  unpromised_blocks += other.unpromised_blocks;
  declined_slots += other.declined_slots;
  staged_blocks += other.staged_blocks;
  short_blocks += other.short_blocks;
  AddEach(other.host_policies, &host_policies);
  AddEach(other.gpu_policies, &gpu_policies);
  AddEach(other.disk_policies, &disk_policies);
  agents_without_disks += other.agents_without_disks;
  refused_newcomers += other.refused_newcomers;
  learnt_orders += other.learnt_orders;
  advised_blocks += other.advised_blocks;
  kept_blocks += other.kept_blocks;
  dropped_blocks += other.dropped_blocks;
}

std::vector<std::pair<const char*, uint64_t>> Coverage::Counts() const {
  using enum EvictionPolicy;
  return {{"crashes", crashes},
          {"host hits", host_hits},
          {"GPU hits", gpu_hits},
          {"disk hits", disk_hits},
          {"fetched blocks", fetched_blocks},
          {"blocks asked of a next holder", passed_blocks},
          {"host evictions", host_evictions},
          {"GPU evictions", gpu_evictions},
          {"GPU offloads", gpu_offloads},
          {"disk evictions", disk_evictions},
          {"damaged records", damaged_records},
          {"damaged fetches", damaged_fetches},
          {"disk errors", disk_errors},
          {"quarantines of disks", quarantines},
          {"GPU errors", gpu_errors},
          {"GPU copies abandoned", gpu_abandoned},
          {"fetch timeouts", fetch_timeouts},
          {"deadline misses", deadline_misses},
          {"expired leases", expired_leases},
          {"expired reservations", expired_reservations},
          {"declined offloads", declined_offloads},
          {"offloads not worth it", unworthy_offloads},
          {"offloads over budget", unpaid_offloads},
          {"offloads too late", late_offloads},
          {"puts that waited", waiting_puts},
          {"blocks refused behind", unpromised_blocks},
          {"declined slots", declined_slots},
          {"staged blocks", staged_blocks},
          {"short blocks", short_blocks},
          {"learnt host memory", Of(host_policies, kLearnt)},
          {"LRU host memory", Of(host_policies, kLru)},
          {"FIFO host memory", Of(host_policies, kFifo)},
          {"host memory by priority", Of(host_policies, kPriority)},
          {"learnt GPU pools", Of(gpu_policies, kLearnt)},
          {"LRU GPU pools", Of(gpu_policies, kLru)},
          {"FIFO GPU pools", Of(gpu_policies, kFifo)},
          {"GPU pools by priority", Of(gpu_policies, kPriority)},
          {"learnt disks", Of(disk_policies, kLearnt)},
          {"LRU disks", Of(disk_policies, kLru)},
          {"FIFO disks", Of(disk_policies, kFifo)},
          {"disks by priority", Of(disk_policies, kPriority)},
          {"agents without disks", agents_without_disks},
          {"newcomers refused", refused_newcomers},
          {"orders that followed what they learnt", learnt_orders},
          {"blocks advised of", advised_blocks},
          {"slabs moved between tenants", moved_slabs},
          {"sizes of host memory", host_sizes},
          {"blocks that left for another tenant", blocks_for_others},
          {"blocks kept", kept_blocks},
          {"blocks dropped with a prefix", dropped_blocks}};
}

void Coverage::Print(std::FILE* out) const {
  for (const auto& [name, count] : Counts()) {
    std::fprintf(out, "%12llu %s\n", static_cast<unsigned long long>(count), name);
  }
}

}  // namespace kvtier::sim
