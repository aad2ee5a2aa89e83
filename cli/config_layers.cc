#include "cli/config_layers.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cli/layer_kinds.h"
#include "core/status_macros.h"

namespace kvtier::cli {
namespace {

// Marks the layers that have chunks (Llama 4): those that a list says, or all but each n-th.
absl::Status MarkChunks(const ConfigMembers& members, LayerKinds* kinds) {
  const bool is_llama = members.IsClass("llama4");
  std::vector<uint64_t> listed;
  // Published configs have an empty list, which stands for the interval.
  if (members.Has({"no_rope_layers"}) && !members.IsEmptyList("no_rope_layers")) {
    KVT_ASSIGN_OR_RETURN(listed, members.Numbers("no_rope_layers"));
    KVT_RETURN_IF_ERROR(CheckLength("no_rope_layers", listed.size(), kinds->size()));
  }
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> said,
                       members.Number({"no_rope_layer_interval"}));
  constexpr uint64_t kLlamaInterval = 4;
  const uint64_t interval = said.value_or(is_llama ? kLlamaInterval : 0);
  if (listed.empty() && interval == 0) {
    return absl::InvalidArgumentError(
        "attention_chunk_size shows layers that keep a chunk, and there is no no_rope_layers and "
        "no no_rope_layer_interval that say which; give --window and --window-layers");
  }
  for (size_t layer = 0; layer < kinds->size(); ++layer) {
    const bool is_full = listed.empty() ? (layer + 1) % interval == 0 : listed[layer] == 0;
    LayerKind& kind = (*kinds)[layer];
    if (kind == LayerKind::kFull && !is_full) kind = LayerKind::kChunk;
  }
  return absl::OkStatus();
}

// Marks the layers with a window where no member says it of each layer: every n-th layer has none
// (Gemma), the first ones have none (Qwen), or all have one (Mistral).
absl::Status MarkWindows(const ConfigMembers& members, LayerKinds* kinds) {
  KVT_ASSIGN_OR_RETURN(
      const std::optional<uint64_t> pattern,
      members.Number({"sliding_window_pattern", "_sliding_window_pattern", "layer_switch"}));
  std::optional<uint64_t> first_without;
  if (pattern.value_or(0) == 0 && members.IsTrue("use_sliding_window")) {
    KVT_ASSIGN_OR_RETURN(first_without, members.Number({"max_window_layers"}));
  }
  for (size_t layer = first_without.value_or(0); layer < kinds->size(); ++layer) {
    LayerKind& kind = (*kinds)[layer];
    const bool is_full = pattern.value_or(0) != 0 && (layer + 1) % *pattern == 0;
    if (kind == LayerKind::kFull && !is_full) kind = LayerKind::kWindow;
  }
  return absl::OkStatus();
}

// Returns whether layers have the window that `sliding_window` names. Qwen's have none unless
// use_sliding_window says so.
bool UsesWindows(const ConfigMembers& members) {
  if (members.Has({"layer_types"})) return true;
  const bool by_default = !members.IsClass("qwen");
  return by_default ? !members.IsFalse("use_sliding_window") : members.IsTrue("use_sliding_window");
}

// The windows and chunks of layers, which have one length.
struct Windows {
  uint64_t tokens = 0;  // 0: no layer has a window or a chunk.
  bool has_window = false;
  bool has_chunk = false;
};

absl::StatusOr<Windows> WindowsOf(const ConfigMembers& members) {
  std::optional<uint64_t> window;
  if (UsesWindows(members)) {
    KVT_ASSIGN_OR_RETURN(
        window, members.Number({"sliding_window", "sliding_window_size", "attention_window_size"}));
  }
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> chunk,
                       members.Number({"attention_chunk_size"}));
  const Windows windows{.tokens = std::max(window.value_or(0), chunk.value_or(0)),
                        .has_window = window.value_or(0) != 0,
                        .has_chunk = chunk.value_or(0) != 0};
  if (!windows.has_window || !windows.has_chunk || *window == *chunk) return windows;
  return absl::InvalidArgumentError(absl::StrCat(
      "sliding_window ", *window, " and attention_chunk_size ", *chunk,
      " show windows of two lengths, which cannot be counted; give --window and --window-layers"));
}

}  // namespace

absl::StatusOr<ConfigLayers> LayersOf(const ConfigMembers& members, const ModelFacts& given) {
  // A window that is given stands for what the config has.
  Windows windows{
      .tokens = given.window,
      .has_window = !members.Has({"attention_chunk_size"}) ||
                    members.Has({"sliding_window", "sliding_window_size", "attention_window_size"}),
      .has_chunk = true};
  if (given.window == 0) {
    KVT_ASSIGN_OR_RETURN(windows, WindowsOf(members));
  }
  ConfigLayers layers{.window = windows.tokens};
  absl::StatusOr<LayerKinds> kinds = KindsOfLayers(members, given.layers);
  if (!kinds.ok()) {
    if (given.layers == 0) return kinds.status();
    if (layers.window != given.window && given.window_layers == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("which of the layers have the sliding_window of ", layers.window,
                       " tokens cannot be told; give --window-layers"));
    }
    layers.layers = given.layers;
    layers.window_layers = given.window_layers;
    return layers;
  }
  const bool names_each = members.Has({"layer_types"}) || std::ranges::any_of(*kinds, HasWindow);
  if (layers.window != 0 && given.window_layers == 0 && !names_each) {
    const absl::Status marked =
        windows.has_window ? MarkWindows(members, &*kinds) : MarkChunks(members, &*kinds);
    if (!marked.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(marked.message(), "; --window-layers can stand for it"));
    }
  }
  if (given.window == 0 && !windows.has_window &&
      std::ranges::count(*kinds, LayerKind::kWindow) != 0) {
    return absl::InvalidArgumentError(
        "some layers are sliding_attention, and there is no sliding_window; give --window");
  }
  if (given.window == 0 && !windows.has_chunk &&
      std::ranges::count(*kinds, LayerKind::kChunk) != 0) {
    return absl::InvalidArgumentError(
        "some layers are chunked_attention, and there is no attention_chunk_size; give --window");
  }
  layers.layers = kinds->size() - std::ranges::count(*kinds, LayerKind::kWithoutKv);
  if (layers.layers == 0) {
    return absl::InvalidArgumentError(
        "no layer has attention: there is no KV to size; name another model");
  }
  layers.window_layers = std::ranges::count_if(*kinds, HasWindow);
  if (given.window_layers != 0) layers.window_layers = given.window_layers;
  if (layers.window_layers == 0) layers.window = 0;
  KVT_ASSIGN_OR_RETURN(layers.kv_heads, KvHeadsOfLayers(members));
  std::erase(layers.kv_heads, uint64_t{0});
  return layers;
}

}  // namespace kvtier::cli
