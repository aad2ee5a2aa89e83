#include "bench/policy/sweep_report.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "bench/figure.h"
#include "nlohmann/json.hpp"

namespace kvtier::bench {
namespace {

using OrderedJson = nlohmann::ordered_json;

double Ratio(uint64_t a, uint64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

double InsertionsPerBlock(const Sweep& sweep, const ReplayedHits& hits) {
  return Ratio(hits.insertions, sweep.blocks);
}

double DramHitPercent(const ReplayResult& result) {
  return 100 * Ratio(result.host_tokens, result.tokens);
}

double DiskHitPercent(const ReplayResult& result) {
  return 100 * Ratio(result.disk_tokens, result.tokens);
}

double WritesPerServed(const ReplayResult& result) {
  return Ratio(result.disk_written, result.disk_served);
}

std::string NameOf(EvictionPolicy policy) { return std::string(EvictionPolicyName(policy)); }

// Prints one line for each capacity, with the result of `cell` for each policy's hits.
template <typename Cell>
void PrintOneTier(const Sweep& sweep, const char* title, Cell cell) {
  std::printf("%s\n%10s %9s", title, "capacity", "blocks");
  for (const Policy* policy : sweep.policies) std::printf(" %10s", policy->name);
  std::printf("\n");
  for (const OneTierRow& row : sweep.one_tier) {
    std::printf("%8.3g %% %9zu", row.percent, row.blocks);
    for (const ReplayedHits& hits : row.hits) std::printf(" %10.2f", cell(hits));
    std::printf("\n");
  }
}

void PrintTwoTiers(const Sweep& sweep) {
  if (sweep.two_tiers.empty()) return;
  std::printf(
      "two tiers, hits in %% of prompt tokens; writes: blocks written to disk for each block of "
      "the\n"
      "trace; W: for each one served from disk\n"
      "%10s %9s %9s %9s %10s %10s %10s %8s %8s\n",
      "DRAM", "disk", "in DRAM", "on disk", "DRAM hits", "disk hits", "total", "writes", "W");
  for (const TwoTierRow& row : sweep.two_tiers) {
    const double dram = DramHitPercent(row.result);
    const double disk = DiskHitPercent(row.result);
    std::printf("%8.3g %% %7.3g %% %9s %9s %10.2f %10.2f %10.2f %8.2f %8.2f\n", row.dram_percent,
                row.disk_percent, NameOf(row.host).c_str(), NameOf(row.disk).c_str(), dram, disk,
                dram + disk, Ratio(row.result.disk_written, sweep.blocks),
                WritesPerServed(row.result));
  }
}

OrderedJson OneTierJson(const Sweep& sweep, const OneTierRow& row) {
  OrderedJson policies = OrderedJson::object();
  for (size_t i = 0; i < row.hits.size(); ++i) {
    policies[sweep.policies[i]->name] = {
        {"hit_percent", row.hits[i].HitPercent()},
        {"saved_cost_percent", row.hits[i].SavedPercent()},
        {"insertions_per_block", InsertionsPerBlock(sweep, row.hits[i])}};
  }
  return {{"capacity_percent", row.percent},
          {"capacity_blocks", row.blocks},
          {"policies", std::move(policies)}};
}

OrderedJson TwoTierJson(const Sweep& sweep, const TwoTierRow& row) {
  return {{"dram_percent", row.dram_percent},
          {"disk_percent", row.disk_percent},
          {"policy", NameOf(row.host)},
          {"disk_policy", NameOf(row.disk)},
          {"dram_hit_percent", DramHitPercent(row.result)},
          {"disk_hit_percent", DiskHitPercent(row.result)},
          {"writes_per_block", Ratio(row.result.disk_written, sweep.blocks)},
          {"writes_per_served", WritesPerServed(row.result)}};
}

}  // namespace

void PrintTables(const Sweep& sweep) {
  std::printf("\n%s: %zu requests, %zu blocks; a cache without bounds hits %.2f %%\n",
              sweep.trace.c_str(), sweep.requests, sweep.blocks, sweep.unlimited_percent);
  PrintOneTier(sweep, "one tier, hits in % of prompt tokens",
               [](const ReplayedHits& hits) { return hits.HitPercent(); });
  if (sweep.attention_tokens > 0) {
    PrintOneTier(sweep, "one tier, saved cost of computing in % of that of all prompts",
                 [](const ReplayedHits& hits) { return hits.SavedPercent(); });
  }
  PrintOneTier(sweep, "one tier, insertions for each block of the trace",
               [&](const ReplayedHits& hits) { return InsertionsPerBlock(sweep, hits); });
  PrintTwoTiers(sweep);
  std::fflush(stdout);
}

void PrintFigures(std::span<const Sweep> sweeps) {
  std::printf("\n");
  for (const Sweep& sweep : sweeps) {
    const auto reference =
        static_cast<size_t>(std::ranges::find(sweep.policies, kReferencePolicy, &Policy::name) -
                            sweep.policies.begin());
    for (const OneTierRow& row : sweep.one_tier) {
      const double lru = row.hits[reference].HitPercent();
      for (size_t i = 0; i < row.hits.size(); ++i) {
        const absl::string_view name = sweep.policies[i]->name;
        if (name != kOwnPolicy && name != kBound) continue;
        const double hit = row.hits[i].HitPercent();
        PrintFigure(absl::StrFormat("policy.%s.%g.%s", sweep.trace, row.percent, name), hit, "%",
                    lru > 0 ? hit / lru : 0, sweep.policies[reference]->name);
      }
    }
  }
}

std::string ToJson(std::span<const Sweep> sweeps) {
  OrderedJson traces = OrderedJson::array();
  for (const Sweep& sweep : sweeps) {
    OrderedJson one_tier = OrderedJson::array();
    for (const OneTierRow& row : sweep.one_tier) one_tier.push_back(OneTierJson(sweep, row));
    OrderedJson two_tiers = OrderedJson::array();
    for (const TwoTierRow& row : sweep.two_tiers) two_tiers.push_back(TwoTierJson(sweep, row));
    traces.push_back({{"name", sweep.trace},
                      {"requests", sweep.requests},
                      {"blocks", sweep.blocks},
                      {"unlimited_hit_percent", sweep.unlimited_percent},
                      {"one_tier", std::move(one_tier)},
                      {"two_tiers", std::move(two_tiers)}});
  }
  return OrderedJson{{"schema", 1}, {"traces", std::move(traces)}}.dump(2) + "\n";
}

}  // namespace kvtier::bench
