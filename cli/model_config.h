// Reads the facts of a model from the config.json that is published with its weights
// (Hugging Face's transformers: PretrainedConfig).
#ifndef KVTIER_CLI_MODEL_CONFIG_H_
#define KVTIER_CLI_MODEL_CONFIG_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/model_facts.h"

namespace kvtier::cli {

// Largest config.json that is read, in bytes; published ones have some kilobytes.
inline constexpr size_t kMaxConfigBytes = size_t{4} << 20;

// Returns the facts in the text of a config.json; those of the text model where it has several.
// A field of `given` that is not 0 replaces a member that is absent or wrong; heads and the latent
// also replace members that are there. Leaves empty what neither says and is not needed: the
// parameters, the query heads, and the type where that is absent.
// Errors: kInvalidArgument, which names the member and its value, or the option that gives it.
absl::StatusOr<ModelFacts> FactsFromConfig(absl::string_view json, const ModelFacts& given);

// Returns the facts of a file, or of the config.json in a folder; the facts have its path as their
// name.
absl::StatusOr<ModelFacts> FactsFromConfigFile(const std::string& path, const ModelFacts& given);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_MODEL_CONFIG_H_
