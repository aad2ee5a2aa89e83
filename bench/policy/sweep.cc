#include "bench/policy/sweep.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/disk_model.h"
#include "bench/policy/order_cache.h"
#include "bench/progress.h"
#include "tier_disk/admission/admission.h"
#include "tier_disk/admission/write_budget.h"

namespace kvtier::bench {
namespace {

size_t BlocksOf(const Trace& trace, double percent) {
  const double blocks = static_cast<double>(trace.parents.size()) * percent / 100;
  return std::max<size_t>(static_cast<size_t>(std::llround(blocks)), 1);
}

// Returns the policies with which host memory and the disk are replayed: kvtier's own and the
// reference, if the plan has them.
std::vector<EvictionPolicy> TwoTierPolicies(const SweepPlan& plan) {
  std::vector<EvictionPolicy> policies;
  for (const Policy* policy : plan.policies) {
    if (policy->name != kOwnPolicy && policy->name != kReferencePolicy) continue;
    policies.push_back(*ParseEvictionPolicy(policy->name));
  }
  return policies;
}

// Replays the trace with host memory that inserts every block, above a disk that gets the blocks
// that the agent's defaults would write.
ReplayResult ReplayTwoTiers(const Trace& trace, const TwoTierRow& row) {
  const size_t disk_blocks = BlocksOf(trace, row.disk_percent);
  OrderCache host(trace.parents.size(), BlocksOf(trace, row.dram_percent),
                  {.policy = row.host, .admitted = OrderCache::Admitted::kAll});
  SegmentDisk disk(trace, disk_blocks, row.disk);
  WriteBudget no_limit({});
  Admission admission({.disk_bytes = disk_blocks * TwoTierCache::kRecordBytes}, &no_limit);
  return TwoTierCache(trace, &host, &disk, &admission, &no_limit).Replay();
}

}  // namespace

Sweep RunSweep(const Trace& trace, const SweepPlan& plan) {
  Sweep sweep{.trace = trace.name,
              .requests = trace.requests.size(),
              .blocks = trace.parents.size(),
              .attention_tokens = plan.attention_tokens,
              .policies = plan.policies};
  const bool has_hints = std::ranges::any_of(
      trace.requests, [](const TraceRequest& request) { return request.hint.has_value(); });
  if (!has_hints) std::erase_if(sweep.policies, [](auto* policy) { return policy->needs_hints; });
  const std::vector<EvictionPolicy> policies = TwoTierPolicies(plan);
  Progress progress(trace.name, 1 + plan.capacities.size() * sweep.policies.size() +
                                    plan.drams.size() * policies.size() * policies.size());
  progress.Step("without bounds");
  const auto unlimited = FindPolicy(kReferencePolicy)->make(trace, BlocksOf(trace, 100), 0);
  sweep.unlimited_percent = Replay(trace, unlimited.get()).HitPercent();
  for (const double percent : plan.capacities) {
    OneTierRow row{.percent = percent, .blocks = BlocksOf(trace, percent)};
    for (const Policy* policy : sweep.policies) {
      progress.Step(absl::StrCat(policy->name, " at ", percent, " %"));
      const auto cache = policy->make(trace, row.blocks, plan.attention_tokens);
      row.hits.push_back(Replay(trace, cache.get(), plan.attention_tokens));
    }
    sweep.one_tier.push_back(std::move(row));
  }
  for (const double dram : plan.drams) {
    const double disk = dram * kDiskForDram;
    if (BlocksOf(trace, disk) < SegmentDisk::kSegments) continue;
    for (const EvictionPolicy host_policy : policies) {
      for (const EvictionPolicy disk_policy : policies) {
        TwoTierRow row{
            .dram_percent = dram, .disk_percent = disk, .host = host_policy, .disk = disk_policy};
        progress.Step(absl::StrCat(EvictionPolicyName(host_policy), " above a disk of ",
                                   EvictionPolicyName(disk_policy), ", at ", dram, " %"));
        row.result = ReplayTwoTiers(trace, row);
        sweep.two_tiers.push_back(row);
      }
    }
  }
  return sweep;
}

}  // namespace kvtier::bench
