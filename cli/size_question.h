// SizeQuestion is what `kvtier size` is asked: a model, the length and number of its requests, the
// tiers, and how fast the model computes a prompt.
#ifndef KVTIER_CLI_SIZE_QUESTION_H_
#define KVTIER_CLI_SIZE_QUESTION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/model_facts.h"

namespace kvtier::cli {

inline constexpr uint64_t kDefaultSizeTokens = 8192;
inline constexpr uint64_t kMaxSizeRequests = 1'000'000;
// Bounds of --prefill-rate (tokens a second), --flops (operations a second) and --parameters: wide
// enough for each machine and model, and narrow enough for times and rates that can be shown.
inline constexpr double kMinPrefillRate = 1;
inline constexpr double kMaxPrefillRate = 1e8;
inline constexpr double kMinFlops = 1e9;
inline constexpr double kMaxFlops = 1e20;
inline constexpr double kMinParameters = 1;
inline constexpr double kMaxParameters = 1e15;

struct SizeQuestion {
  // A preset, a config.json, or neither; facts that are given one by one take their place.
  std::string preset;
  std::string config;
  ModelFacts given;                      // 0 or empty: not given.
  uint64_t tokens = kDefaultSizeTokens;  // Tokens of a request.
  uint64_t requests = 1;
  // Bytes of the tiers, in the order in which they were named; 0: not asked for.
  uint64_t gpu_bytes = 0;
  uint64_t host_bytes = 0;
  uint64_t disk_bytes = 0;
  // Speed at which prompts are computed, in tokens a second or in operations a second. 0: unknown;
  // at most one of the two is known.
  double prefill_rate = 0;
  double flops = 0;
};

// Returns the question that the options ask. Errors: kInvalidArgument, which names the option and
// its value.
absl::StatusOr<SizeQuestion> SizeQuestionFrom(
    const std::map<std::string, std::vector<std::string>>& options);

// Returns the facts of the model that is asked about, checked. Reads the config.json, if any. Facts
// that are given replace those of the preset or of the config.json; KV heads are the heads, and all
// layers have the window, where nothing says otherwise.
absl::StatusOr<ModelFacts> FactsOf(const SizeQuestion& question);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_SIZE_QUESTION_H_
