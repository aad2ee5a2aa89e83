// The facts of models that many people run, from their published config.json files and papers.
#ifndef KVTIER_CLI_MODEL_PRESETS_H_
#define KVTIER_CLI_MODEL_PRESETS_H_

#include <span>

#include "absl/strings/string_view.h"
#include "cli/model_facts.h"

namespace kvtier::cli {

// Returns all of them, by name.
std::span<const ModelFacts> ModelPresets();
// Returns the one of this name; nullptr: there is none.
const ModelFacts* FindPreset(absl::string_view name);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_MODEL_PRESETS_H_
