// `kvtier size`: the bytes of keys and values (KV) of a model, what the tiers hold of them, and the
// bandwidth at which fetching them beats computing them. It asks nobody.
#ifndef KVTIER_CLI_SIZE_H_
#define KVTIER_CLI_SIZE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/model_facts.h"
#include "cli/outcome.h"
#include "cli/size_question.h"

namespace kvtier::cli {

// The answer. Bytes are those of the numbers alone: slots, sums and indexes come on top.
struct ModelSize {
  ModelFacts facts;
  uint64_t token_bytes = 0;
  uint64_t tokens = 0;  // Tokens of a request.
  uint64_t request_bytes = 0;
  uint64_t requests = 0;
  uint64_t total_bytes = 0;  // Bytes of so many requests.
  struct Tier {
    std::string name;
    uint64_t bytes = 0;
    uint64_t tokens = 0;    // Longest context that fits.
    uint64_t requests = 0;  // Number of requests that fit at the same time.
  };
  std::vector<Tier> tiers;
  // Seconds in which the model computes a request, and the bytes a second at which fetching it
  // takes as long; nullopt: the question does not say how fast it computes.
  struct Recompute {
    double seconds = 0;
    double bytes_per_second = 0;
  };
  std::optional<Recompute> recompute;
};

// Errors: kInvalidArgument, for a person.
absl::StatusOr<ModelSize> SizeOf(const SizeQuestion& question);

std::string SizeTable(const ModelSize& size);
std::string SizeJson(const ModelSize& size);

Outcome RunSize(const Arguments& arguments);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_SIZE_H_
