// Counts the layers of a model that keep keys and values (KV), and those of them that have a
// window, by what its config.json says.
#ifndef KVTIER_CLI_CONFIG_LAYERS_H_
#define KVTIER_CLI_CONFIG_LAYERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/config_members.h"
#include "cli/model_facts.h"

namespace kvtier::cli {

struct ConfigLayers {
  uint64_t layers = 0;         // Layers with attention that keep KV of their own.
  uint64_t window = 0;         // Tokens of a window; 0: no layer has one.
  uint64_t window_layers = 0;  // Layers with a window; 0 beside a window: the config does not say.
  // KV heads of each of `layers`, where the config says them of each layer; empty: it does not.
  std::vector<uint64_t> kv_heads;
};

// Returns the layers. Fields of `given` that are not 0 replace what the config says or lacks.
// Where the config says how many layers have attention, `layers` is that number, whatever is given.
// Errors: kInvalidArgument, which names the member and its value, and the option that gives what
// cannot be told.
absl::StatusOr<ConfigLayers> LayersOf(const ConfigMembers& members, const ModelFacts& given);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_CONFIG_LAYERS_H_
