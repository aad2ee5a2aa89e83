#include "bench/policy/sweep.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "bench/disk_model.h"
#include "bench/progress.h"
#include "tier_disk/admission/admission.h"
#include "tier_disk/admission/write_budget.h"

namespace kvtier::bench {
namespace {

size_t BlocksOf(const Trace& trace, double percent) {
  const double blocks = static_cast<double>(trace.parents.size()) * percent / 100;
  return std::max<size_t>(static_cast<size_t>(std::llround(blocks)), 1);
}

// Replays the trace with a disk that all blocks are written to that leave host memory and are not
// there yet.
ReplayResult ReplayTwoTiers(const Trace& trace, ReplayedCache* host, size_t disk_blocks) {
  SegmentDisk disk(trace, disk_blocks);
  WriteBudget no_limit({});
  Admission admission({.policy = WritePolicy::kAll,
                       .moment = WriteMoment::kAtEviction,
                       .disk_bytes = disk_blocks * TwoTierCache::kRecordBytes},
                      &no_limit);
  return TwoTierCache(trace, host, &disk, &admission, &no_limit).Replay();
}

bool IsHostPolicy(const Policy* policy) {
  return policy->name == kOwnPolicy || policy->name == kReferencePolicy;
}

}  // namespace

Sweep RunSweep(const Trace& trace, const SweepPlan& plan) {
  Sweep sweep{.trace = trace.name,
              .requests = trace.requests.size(),
              .blocks = trace.parents.size(),
              .policies = plan.policies};
  const auto hosts = static_cast<size_t>(std::ranges::count_if(plan.policies, IsHostPolicy));
  Progress progress(trace.name,
                    1 + plan.capacities.size() * plan.policies.size() + plan.drams.size() * hosts);
  progress.Step("without bounds");
  const auto unlimited = FindPolicy(kReferencePolicy)->make(trace, BlocksOf(trace, 100));
  sweep.unlimited_percent = Replay(trace, unlimited.get()).HitPercent();
  for (const double percent : plan.capacities) {
    OneTierRow row{.percent = percent, .blocks = BlocksOf(trace, percent)};
    for (const Policy* policy : plan.policies) {
      progress.Step(absl::StrCat(policy->name, " at ", percent, " %"));
      row.hits.push_back(Replay(trace, policy->make(trace, row.blocks).get()));
    }
    sweep.one_tier.push_back(std::move(row));
  }
  for (const double dram : plan.drams) {
    const double disk = dram * kDiskForDram;
    if (BlocksOf(trace, disk) < SegmentDisk::kSegments) continue;
    for (const Policy* policy : plan.policies) {
      if (!IsHostPolicy(policy)) continue;
      progress.Step(absl::StrCat(policy->name, " above a disk, at ", dram, " %"));
      const auto host = policy->make(trace, BlocksOf(trace, dram));
      sweep.two_tiers.push_back(
          {.dram_percent = dram,
           .disk_percent = disk,
           .host = policy,
           .result = ReplayTwoTiers(trace, host.get(), BlocksOf(trace, disk))});
    }
  }
  return sweep;
}

}  // namespace kvtier::bench
