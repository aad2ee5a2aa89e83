// bench: policy - hits of replayed traces by policy of eviction, beside LRU, peers' policies and
// MIN
// check: --generated templates --generated chats_and_agents --capacity 2 --policy learnt
//
// A request hits its longest prefix that the cache has; then all of its blocks are used or
// inserted. The cache starts empty; outputs and transfers are left out. Partial last blocks count
// as blocks, as in published results.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/command_output.h"
#include "bench/policy/sweep.h"
#include "bench/policy/sweep_report.h"
#include "bench/trace_file.h"
#include "bench/workloads.h"
#include "core/status_macros.h"

namespace kvtier::bench {
namespace {

constexpr char kTraceFolder[] = "../shared/traces";

struct Source {
  std::string path;                    // Trace file; empty: the workload.
  const Workload* workload = nullptr;  // Generated workload, set if `path` is empty.
};

struct Arguments {
  std::vector<Source> sources;
  SweepPlan plan;
  std::string json_path;  // File of the JSON; empty: none is written.
  std::string plot_path;  // File of the plot; empty: nothing is drawn.
};

void PrintUsage(const char* program) {
  std::fprintf(stderr,
               "usage: %s [FLAG...]\n"
               "  --trace FILE         a trace to replay, once or more; without it and\n"
               "                       --generated: those in %s, or all generated ones\n"
               "  --generated [NAME]   a generated workload, or all of them:\n",
               program, kTraceFolder);
  for (const Workload& workload : Workloads()) {
    std::fprintf(stderr, "                         %s: %s\n", workload.name, workload.description);
  }
  std::fprintf(stderr,
               "  --capacity P,...     capacities in %% of a trace's blocks\n"
               "  --dram P,...         the same of host memory above a disk of %g times as much\n"
               "  --policy NAME,...    policies, of:",
               kDiskForDram);
  for (const Policy& policy : Policies()) std::fprintf(stderr, " %s", policy.name);
  std::fprintf(
      stderr,
      "\n"
      "                       lru is always among them\n"
      "  --attention_tokens N context at which attention costs a token as much as all else:\n"
      "                       the learnt order weighs it, and what is saved is shown\n"
      "  --json FILE          where to write what was measured\n"
      "  --plot FILE.png      where to draw the hits of one tier over the capacity\n");
}

// Parses percentages. Errors: kInvalidArgument, not numbers above 0 and up to 100 with commas
// between them.
absl::StatusOr<std::vector<double>> ParsePercents(absl::string_view text) {
  std::vector<double> percents;
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    double percent = 0;
    if (!absl::SimpleAtod(word, &percent) || !(percent > 0 && percent <= 100)) {
      return absl::InvalidArgumentError(absl::StrCat("not a percentage: '", word, "'"));
    }
    percents.push_back(percent);
  }
  return percents;
}

// Returns the policies named and LRU, in the order of tables.
absl::StatusOr<std::vector<const Policy*>> ParsePolicies(absl::string_view text) {
  const std::vector<absl::string_view> names = absl::StrSplit(text, ',');
  for (const absl::string_view name : names) {
    if (FindPolicy(name) == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("no policy '", name, "'"));
    }
  }
  std::vector<const Policy*> policies;
  for (const Policy& policy : Policies()) {
    const bool is_named = std::ranges::find(names, policy.name) != names.end();
    if (is_named || policy.name == kReferencePolicy) policies.push_back(&policy);
  }
  return policies;
}

void AddAllWorkloads(std::vector<Source>* sources) {
  for (const Workload& workload : Workloads()) sources->push_back({.workload = &workload});
}

void AddDefaultSources(std::vector<Source>* sources) {
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(kTraceFolder, error)) {
    const std::string path = file.path().string();
    if (path.find(".jsonl") != std::string::npos) sources->push_back({.path = path});
  }
  std::ranges::sort(*sources, {}, &Source::path);
  if (sources->empty()) AddAllWorkloads(sources);
}

// Parses one flag with its value. Errors: kInvalidArgument.
absl::Status ParseFlag(absl::string_view flag, const std::string& value, Arguments* arguments) {
  if (flag == "--trace") {
    arguments->sources.push_back({.path = value});
  } else if (flag == "--generated") {
    const Workload* const workload = FindWorkload(value);
    if (workload == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("no workload '", value, "'"));
    }
    arguments->sources.push_back({.workload = workload});
  } else if (flag == "--capacity") {
    KVT_ASSIGN_OR_RETURN(arguments->plan.capacities, ParsePercents(value));
  } else if (flag == "--dram") {
    KVT_ASSIGN_OR_RETURN(arguments->plan.drams, ParsePercents(value));
  } else if (flag == "--attention_tokens") {
    if (!absl::SimpleAtoi(value, &arguments->plan.attention_tokens)) {
      return absl::InvalidArgumentError(absl::StrCat("not a number of tokens: '", value, "'"));
    }
  } else if (flag == "--policy") {
    KVT_ASSIGN_OR_RETURN(arguments->plan.policies, ParsePolicies(value));
  } else if (flag == "--json") {
    arguments->json_path = value;
  } else if (flag == "--plot") {
    arguments->plot_path = value;
  } else {
    return absl::InvalidArgumentError(absl::StrCat("no flag '", flag, "'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Arguments> ParseArguments(std::span<char*> words) {
  Arguments arguments;
  for (const Policy& policy : Policies()) arguments.plan.policies.push_back(&policy);
  for (size_t i = 1; i < words.size(); ++i) {
    const absl::string_view flag = words[i];
    const bool has_value = i + 1 < words.size() && words[i + 1][0] != '-';
    if (flag == "--generated" && !has_value) {
      AddAllWorkloads(&arguments.sources);
    } else if (!has_value) {
      return absl::InvalidArgumentError(absl::StrCat("'", flag, "' lacks its value"));
    } else {
      KVT_RETURN_IF_ERROR(ParseFlag(flag, words[++i], &arguments));
    }
  }
  if (arguments.sources.empty()) AddDefaultSources(&arguments.sources);
  return arguments;
}

// Writes a file. Errors: kUnavailable, the file cannot be written.
absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (file.good()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path));
}

// Draws the figures in `json` with bench/plot_policy.py. Errors: as OutputOf().
absl::Status Draw(const std::string& json, const std::string& plot_path) {
  const std::string json_path = plot_path + ".json";
  KVT_RETURN_IF_ERROR(WriteFile(json_path, json));
  const auto drawn = OutputOf({"/usr/bin/python3", KVTIER_PLOT_SCRIPT, json_path, plot_path},
                              absl::InfiniteDuration());
  std::error_code error;
  std::filesystem::remove(json_path, error);
  return drawn.status();
}

absl::Status Run(const Arguments& arguments) {
  std::vector<Sweep> sweeps;
  for (const Source& source : arguments.sources) {
    Trace trace;
    if (source.path.empty()) {
      trace = source.workload->Generate();
    } else {
      KVT_ASSIGN_OR_RETURN(trace, ReadTrace(source.path, PartialBlocks::kKeep));
    }
    if (trace.parents.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(trace.name, " has no blocks"));
    }
    sweeps.push_back(RunSweep(trace, arguments.plan));
    PrintTables(sweeps.back());
  }
  const std::string json = ToJson(sweeps);
  if (!arguments.json_path.empty()) KVT_RETURN_IF_ERROR(WriteFile(arguments.json_path, json));
  if (!arguments.plot_path.empty()) KVT_RETURN_IF_ERROR(Draw(json, arguments.plot_path));
  PrintFigures(sweeps);
  return absl::OkStatus();
}

int Main(std::span<char*> words) {
  if (std::ranges::find(words, absl::string_view("--help")) != words.end()) {
    PrintUsage(words[0]);
    return 0;
  }
  const absl::StatusOr<Arguments> arguments = ParseArguments(words);
  if (!arguments.ok()) {
    std::fprintf(stderr, "bench_policy: %s\n", std::string(arguments.status().message()).c_str());
    PrintUsage(words[0]);
    return 2;
  }
  const absl::Status ran = Run(*arguments);
  if (ran.ok()) return 0;
  std::fprintf(stderr, "bench_policy: %s\n", ran.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace kvtier::bench

int main(int argc, char** argv) { return kvtier::bench::Main({argv, static_cast<size_t>(argc)}); }
