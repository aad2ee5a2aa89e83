// bench: write_policy - hits against disk writes: when to write a block, and which
// check: --dram 0.005
//
// It replays traces through a model of two tiers, with the real Admission. Everything is compared
// with writing all blocks that host memory evicts (lazy_all), in the same run.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/disk_model.h"
#include "bench/policy/lru_cache.h"
#include "bench/trace.h"
#include "bench/trace_file.h"
#include "bench/two_tier_cache.h"
#include "bench/workloads.h"
#include "core/status_macros.h"
#include "tier_disk/admission/admission.h"
#include "tier_disk/admission/write_budget.h"

namespace kvtier::bench {
namespace {

// Sizes of the tiers, as shares of all blocks of a trace.
struct Shares {
  double dram = 0.05;
  double disk = 0.30;
};
constexpr Shares kDefaultShares;

enum class DiskKind : uint8_t { kSegments, kLru };

struct Mode {
  const char* name;
  WriteMoment moment = WriteMoment::kAtEviction;
  WritePolicy policy = WritePolicy::kAll;
  double budget = 0;  // Share of what lazy_all writes; 0: unlimited.
  DiskKind disk = DiskKind::kSegments;
};
// The others are compared with the first mode, and get their budgets from it.
constexpr Mode kModes[] = {
    {.name = "lazy_all"},
    {.name = "lazy_second_touch", .policy = WritePolicy::kSecondTouch},
    {.name = "lazy_reuse_75", .policy = WritePolicy::kPredictedReuse, .budget = 0.75},
    {.name = "lazy_reuse_50", .policy = WritePolicy::kPredictedReuse, .budget = 0.50},
    {.name = "lazy_reuse_25", .policy = WritePolicy::kPredictedReuse, .budget = 0.25},
    {.name = "lazy_reuse_10", .policy = WritePolicy::kPredictedReuse, .budget = 0.10},
    // Modes with a budget only: first come, first written.
    {.name = "lazy_all_50", .budget = 0.50},
    {.name = "lazy_all_25", .budget = 0.25},
    {.name = "commit_all", .moment = WriteMoment::kAtCommit},
    {.name = "commit_second_touch",
     .moment = WriteMoment::kAtCommit,
     .policy = WritePolicy::kSecondTouch},
    {.name = "commit_reuse_50",
     .moment = WriteMoment::kAtCommit,
     .policy = WritePolicy::kPredictedReuse,
     .budget = 0.50},
    {.name = "commit_reuse_25",
     .moment = WriteMoment::kAtCommit,
     .policy = WritePolicy::kPredictedReuse,
     .budget = 0.25},
    // Modes without the log, as published figures assume.
    {.name = "lazy_all_lru_disk", .disk = DiskKind::kLru},
    {.name = "commit_all_lru_disk", .moment = WriteMoment::kAtCommit, .disk = DiskKind::kLru},
};

// The bucket is a twentieth of the trace, because an hour would be longer than most traces.
constexpr int kBurstsInSpan = 20;

WriteBudgetOptions BudgetOf(const Trace& trace, uint64_t bytes) {
  if (bytes == 0) return {};
  const double spans_in_a_day =
      absl::FDivDuration(absl::Hours(24), std::max(trace.BusySpan(), absl::Seconds(1)));
  return {.drive_writes_per_day = 1,
          .drive_bytes = static_cast<uint64_t>(static_cast<double>(bytes) * spans_in_a_day),
          .burst = std::min(trace.BusySpan() / kBurstsInSpan, kMaxWriteBurst)};
}

ReplayResult Run(const Trace& trace, const Shares& shares, const Mode& mode,
                 uint64_t budget_bytes) {
  const double blocks = static_cast<double>(trace.parents.size());
  const auto disk_blocks = static_cast<uint64_t>(blocks * shares.disk);
  std::unique_ptr<DiskModel> disk;
  if (mode.disk == DiskKind::kLru) {
    disk = std::make_unique<LruDisk>(trace, disk_blocks);
  } else {
    disk = std::make_unique<SegmentDisk>(trace, disk_blocks, EvictionPolicy::kLru);
  }
  WriteBudget budget(BudgetOf(trace, budget_bytes));
  Admission admission({.policy = mode.policy,
                       .moment = mode.moment,
                       .disk_bytes = disk_blocks * TwoTierCache::kRecordBytes},
                      &budget);
  const auto host_blocks = static_cast<size_t>(blocks * shares.dram);
  LruCache host(trace.parents.size(), std::max<size_t>(host_blocks, 1));
  return TwoTierCache(trace, &host, disk.get(), &admission, &budget).Replay();
}

double Ratio(uint64_t a, uint64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

double HitPercent(const ReplayResult& result) {
  return 100 * Ratio(result.host_tokens + result.disk_tokens, result.tokens);
}

double WritesPerServed(const ReplayResult& result) {
  return Ratio(result.disk_written, result.disk_served);
}

void PrintRow(const Mode& mode, const ReplayResult& result, const ReplayResult& reference) {
  std::printf("%-20s %6.1f %6.1f %6.1f %9.2f %9.2f %9.2f\n", mode.name,
              100 * Ratio(result.host_tokens, result.tokens),
              100 * Ratio(result.disk_tokens, result.tokens), HitPercent(result),
              WritesPerServed(result), Ratio(result.disk_written, reference.disk_written),
              Ratio(result.disk_written, result.disk_admitted));
  std::fflush(stdout);
}

// Replays `trace` in every mode; appends its figure lines to `figures`.
void Measure(const Trace& trace, const Shares& shares, std::string* figures) {
  std::printf(
      "\n%s: %zu requests, 95 %% within %s; %zu blocks; DRAM %.3g %%, disk %.3g %% of them\n",
      trace.name.c_str(), trace.requests.size(),
      absl::FormatDuration(absl::Trunc(trace.BusySpan(), absl::Seconds(1))).c_str(),
      trace.parents.size(), 100 * shares.dram, 100 * shares.disk);
  std::printf("%-20s %6s %6s %6s %9s %9s %9s\n", "", "DRAM %", "disk %", "hit %", "W", "of all",
              "rewritten");
  std::string name = trace.name;
  if (shares.dram != kDefaultShares.dram || shares.disk != kDefaultShares.disk) {
    absl::StrAppendFormat(&name, ".%g_%g", 100 * shares.dram, 100 * shares.disk);
  }
  std::optional<ReplayResult> reference;
  for (const Mode& mode : kModes) {
    const double all_bytes =
        reference ? static_cast<double>(reference->disk_written * TwoTierCache::kRecordBytes) : 0;
    const ReplayResult result =
        Run(trace, shares, mode, static_cast<uint64_t>(mode.budget * all_bytes));
    if (!reference) reference = result;
    PrintRow(mode, result, *reference);
    const double hit = HitPercent(result);
    const double writes = WritesPerServed(result);
    absl::StrAppendFormat(figures,
                          "figure write_policy.%s.%s.hit %.2f %% %.3f lazy_all\n"
                          "figure write_policy.%s.%s.writes %.2f blocks/served %.3f lazy_all\n",
                          name, mode.name, hit, hit / HitPercent(*reference), name, mode.name,
                          writes, writes / WritesPerServed(*reference));
  }
}

struct Job {
  std::string path;  // File of the trace; empty: a generated workload.
  Shares shares;
};

struct Jobs {
  std::vector<Job> jobs;
  bool valid = true;
};

Jobs ParseFlags(std::span<char*> arguments) {
  Jobs parsed;
  Shares shares;
  for (size_t i = 1; i < arguments.size(); i += 2) {
    const absl::string_view flag = arguments[i];
    const char* value = i + 1 < arguments.size() ? arguments[i + 1] : nullptr;
    const double share = value != nullptr ? std::atof(value) : 0;
    const bool is_share = share > 0 && share < 1;
    if (value != nullptr && flag == "--trace") {
      parsed.jobs.push_back({.path = value, .shares = shares});
    } else if (is_share && flag == "--dram") {
      shares.dram = share;
    } else if (is_share && flag == "--disk") {
      shares.disk = share;
    } else {
      parsed.valid = false;
    }
  }
  if (parsed.jobs.empty()) parsed.jobs.push_back({.path = "", .shares = shares});
  return parsed;
}

absl::Status Run(std::span<const Job> jobs) {
  std::printf(
      "hit %%: of prompt tokens; W: blocks written for each block served from disk; of all: "
      "writes\n"
      "beside lazy_all's; rewritten: writes for each block admitted, reclaim's included\n");
  std::string figures;
  for (const Job& job : jobs) {
    Trace trace;
    if (job.path.empty()) {
      trace = Workloads().front().Generate();
    } else {
      KVT_ASSIGN_OR_RETURN(trace, ReadTrace(job.path, PartialBlocks::kLeaveOut));
    }
    const double disk_blocks = static_cast<double>(trace.parents.size()) * job.shares.disk;
    if (disk_blocks < static_cast<double>(SegmentDisk::kSegments)) {
      return absl::InvalidArgumentError(absl::StrCat(
          trace.name, ": --disk ", job.shares.disk, " is ", disk_blocks, " blocks, fewer than the ",
          SegmentDisk::kSegments, " segments of the model"));
    }
    Measure(trace, job.shares, &figures);
  }
  std::printf("\n%s", figures.c_str());
  return absl::OkStatus();
}

int Main(std::span<char*> arguments) {
  const Jobs parsed = ParseFlags(arguments);
  if (!parsed.valid) {
    std::fprintf(stderr,
                 "usage: %s [[--dram SHARE] [--disk SHARE] --trace FILE]...\n"
                 "  shares of the trace's blocks, 0.05 and 0.30 unless said; they hold for the\n"
                 "  traces after them. Without a trace: one that is generated.\n",
                 arguments[0]);
    return 2;
  }
  const absl::Status ran = Run(parsed.jobs);
  if (ran.ok()) return 0;
  std::fprintf(stderr, "bench_write_policy: %s\n", ran.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace kvtier::bench

int main(int argc, char** argv) { return kvtier::bench::Main({argv, static_cast<size_t>(argc)}); }
