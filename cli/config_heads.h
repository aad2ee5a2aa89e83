// Reads what each layer of a model keeps of a token, by what its config.json says: keys and values
// of heads, of which layers may have several shapes, or a latent vector, and the keys of an index.
#ifndef KVTIER_CLI_CONFIG_HEADS_H_
#define KVTIER_CLI_CONFIG_HEADS_H_

#include "absl/status/status.h"
#include "cli/config_layers.h"
#include "cli/config_members.h"
#include "cli/model_facts.h"

namespace kvtier::cli {

// Fills in the heads or the latent, the width of attention, and what layers keep that differ from
// the others. Fields of `given` that are not 0 replace what the config says or lacks.
// Errors: kInvalidArgument, which names the member and its value, or the option that gives it.
absl::Status TakeHeads(const ConfigMembers& members, const ModelFacts& given,
                       const ConfigLayers& layers, ModelFacts* facts);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_CONFIG_HEADS_H_
