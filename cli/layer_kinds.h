// Tells the kinds of the layers of a model, by what its config.json says: which of them keep keys
// and values (KV), and, where a member says it of each layer, which have a window or a chunk.
#ifndef KVTIER_CLI_LAYER_KINDS_H_
#define KVTIER_CLI_LAYER_KINDS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/config_members.h"

namespace kvtier::cli {

// A layer of kChunk attends to the tokens of its chunk, so it keeps as many as a window does.
enum class LayerKind { kFull, kWindow, kChunk, kWithoutKv };

using LayerKinds = std::vector<LayerKind>;

inline bool HasWindow(LayerKind kind) {
  return kind == LayerKind::kWindow || kind == LayerKind::kChunk;
}

// Returns the kinds of the layers, of which there are `given_layers` where the config does not say.
// Errors: kInvalidArgument, which names the member and its value, or the option that gives it.
absl::StatusOr<LayerKinds> KindsOfLayers(const ConfigMembers& members, uint64_t given_layers);

// Returns the KV heads of each layer, 0 for one without KV; empty: the config does not say them of
// each. Errors: as KindsOfLayers().
absl::StatusOr<std::vector<uint64_t>> KvHeadsOfLayers(const ConfigMembers& members);

// Returns an error unless a list has one entry for each layer.
absl::Status CheckLength(const char* name, size_t length, uint64_t layers);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_LAYER_KINDS_H_
