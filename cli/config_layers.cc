#include "cli/config_layers.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/status_macros.h"

namespace kvtier::cli {
namespace {

enum class LayerKind { kFull, kWindow, kWithoutKv };

using LayerKinds = std::vector<LayerKind>;

// Returns the error of a config that does not say which layers have attention.
absl::Status UnknownLayers(absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(why, "; give --layers, the number of layers with attention"));
}

absl::Status CheckLength(const char* name, size_t length, uint64_t layers) {
  if (length == layers) return absl::OkStatus();
  return UnknownLayers(
      absl::StrCat(name, " has ", length, " entries and must have num_hidden_layers, ", layers));
}

absl::StatusOr<LayerKind> KindNamed(const char* name, const std::string& kind) {
  static constexpr std::pair<absl::string_view, LayerKind> kKinds[] = {
      {"full_attention", LayerKind::kFull},
      {"attention", LayerKind::kFull},
      {"sliding_attention", LayerKind::kWindow},
      {"linear_attention", LayerKind::kWithoutKv},
      {"mamba", LayerKind::kWithoutKv},
      {"conv", LayerKind::kWithoutKv},
      {"recurrent", LayerKind::kWithoutKv},
      {"mlp", LayerKind::kWithoutKv},
      {"moe", LayerKind::kWithoutKv}};
  for (const auto& [known, value] : kKinds) {
    if (kind == known) return value;
  }
  return UnknownLayers(absl::StrCat(
      name, " has '", kind,
      "', a kind that is not known; must be full_attention, attention or sliding_attention, or ",
      "linear_attention, mamba, conv, recurrent, mlp or moe"));
}

absl::StatusOr<LayerKinds> KindsNamed(const ConfigMembers& members, const char* name) {
  KVT_ASSIGN_OR_RETURN(const std::vector<std::string> names, members.Texts(name));
  LayerKinds kinds;
  for (const std::string& kind : names) {
    KVT_ASSIGN_OR_RETURN(const LayerKind value, KindNamed(name, kind));
    kinds.push_back(value);
  }
  return kinds;
}

// Returns the kinds in a text with one character for each layer (Nemotron-H).
absl::StatusOr<LayerKinds> KindsInPattern(const ConfigMembers& members, const char* name) {
  LayerKinds kinds;
  for (const char c : members.Text({name})) {
    if (!absl::StrContains("*M-E", c)) {
      return UnknownLayers(absl::StrCat(name, " has '", std::string(1, c),
                                        "', a layer that is not known; must be *, M, - or E"));
    }
    kinds.push_back(c == '*' ? LayerKind::kFull : LayerKind::kWithoutKv);
  }
  return kinds;
}

// Returns the kinds where a list has 1 for each layer with attention, and 0 for each other.
absl::StatusOr<LayerKinds> KindsFlagged(const ConfigMembers& members, const char* name) {
  KVT_ASSIGN_OR_RETURN(const std::vector<uint64_t> flags, members.Numbers(name));
  LayerKinds kinds;
  for (const uint64_t flag : flags) {
    if (flag > 1) {
      return UnknownLayers(
          absl::StrCat(name, " has ", flag, ", a kind that is not known; must be 0 or 1"));
    }
    kinds.push_back(flag == 1 ? LayerKind::kFull : LayerKind::kWithoutKv);
  }
  return kinds;
}

// Returns the kinds where a list names the layers with attention, the first layer being 0.
absl::StatusOr<LayerKinds> KindsListed(const ConfigMembers& members, const char* name,
                                       uint64_t layers) {
  KVT_ASSIGN_OR_RETURN(const std::vector<uint64_t> listed, members.Numbers(name));
  LayerKinds kinds(layers, LayerKind::kWithoutKv);
  for (const uint64_t layer : listed) {
    if (layer >= layers) {
      return UnknownLayers(
          absl::StrCat(name, " has ", layer, ", and must be below num_hidden_layers, ", layers));
    }
    kinds[layer] = LayerKind::kFull;
  }
  return kinds;
}

// Returns the kinds where each `period`-th layer has attention, beginning at layer `offset`.
absl::StatusOr<LayerKinds> KindsEvery(absl::string_view name, uint64_t period, uint64_t offset,
                                      uint64_t layers) {
  if (period == 0 || offset >= period) {
    return UnknownLayers(absl::StrCat(name, " must be a period from 1 and an offset below it, not ",
                                      period, " and ", offset));
  }
  LayerKinds kinds(layers, LayerKind::kWithoutKv);
  for (uint64_t layer = offset; layer < layers; layer += period) kinds[layer] = LayerKind::kFull;
  return kinds;
}

// Returns the kinds of layers that some rule gives; all are full where no member has a rule.
absl::StatusOr<LayerKinds> KindsByRule(const ConfigMembers& members, uint64_t layers) {
  for (const char* name : {"attn_layer_indices", "full_attn_idxs"}) {  // Bamba, LFM2.
    if (members.Has({name})) return KindsListed(members, name, layers);
  }
  if (members.Has({"block_types"})) {  // RecurrentGemma: the list begins again at its end.
    KVT_ASSIGN_OR_RETURN(const LayerKinds round, KindsNamed(members, "block_types"));
    LayerKinds kinds;
    for (uint64_t layer = 0; layer < layers; ++layer) kinds.push_back(round[layer % round.size()]);
    return kinds;
  }
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> interval,
                       members.Number({"full_attention_interval"}));  // Qwen3-Next.
  if (interval.has_value()) {
    const uint64_t offset = std::max(*interval, uint64_t{1}) - 1;
    return KindsEvery("full_attention_interval", *interval, offset, layers);
  }
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> period,
                       members.Number({"attn_layer_period"}));  // Jamba.
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> offset, members.Number({"attn_layer_offset"}));
  // Zamba has these members, too, and other rules.
  const bool is_zamba = absl::StartsWith(members.SharedText({"model_type"}), "zamba");
  if (period.has_value() && offset.has_value() && !is_zamba) {
    return KindsEvery("attn_layer_period and attn_layer_offset", *period, *offset, layers);
  }
  const std::string hybrid = members.NameThatBegins(
      {"mamba_", "ssm_", "linear_", "attn_layer_", "hybrid_", "layers_block_type"});
  if (hybrid.empty()) return LayerKinds(layers, LayerKind::kFull);
  return UnknownLayers(
      absl::StrCat(hybrid, " shows a hybrid model, and its layers with attention cannot be told"));
}

// Returns the kinds of the layers; those of kWindow are marked where a member says it of each
// layer.
absl::StatusOr<LayerKinds> KindsOfLayers(const ConfigMembers& members, uint64_t given_layers) {
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> said,
                       members.Number({"num_hidden_layers", "n_layer", "n_layers", "num_layers"}));
  if (!said.has_value() && given_layers == 0) {
    return absl::InvalidArgumentError("there is no num_hidden_layers; give --layers");
  }
  const uint64_t layers = said.value_or(given_layers);
  if (layers == 0 || layers > kMaxLayers) {
    return UnknownLayers(
        absl::StrCat("num_hidden_layers must be 1 to ", kMaxLayers, ", not ", layers));
  }
  using Reader = absl::StatusOr<LayerKinds> (*)(const ConfigMembers&, const char*);
  static constexpr std::pair<const char*, Reader> kLists[] = {
      {"layer_types", KindsNamed},
      {"layers_block_type", KindsNamed},
      {"hybrid_override_pattern", KindsInPattern},
      {"attn_type_list", KindsFlagged}};
  LayerKinds kinds;
  for (const auto& [name, read] : kLists) {
    if (!kinds.empty() || !members.Has({name})) continue;
    KVT_ASSIGN_OR_RETURN(kinds, read(members, name));
    KVT_RETURN_IF_ERROR(CheckLength(name, kinds.size(), layers));
  }
  if (kinds.empty()) {
    KVT_ASSIGN_OR_RETURN(kinds, KindsByRule(members, layers));
  }
  // The last layers of Gemma 3n use the keys and values of layers before them.
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> sharing,
                       members.Number({"num_kv_shared_layers"}));
  const uint64_t without = std::min(sharing.value_or(0), layers);
  std::fill(kinds.end() - static_cast<std::ptrdiff_t>(without), kinds.end(), LayerKind::kWithoutKv);
  return kinds;
}

// Returns n where each n-th layer has no window, by the default of the model's class; 0: it has no
// such default.
uint64_t DefaultPattern(absl::string_view model_type) {
  static constexpr std::pair<absl::string_view, uint64_t> kPatterns[] = {
      {"cohere2", 4},     {"gemma2", 2},  {"gemma3", 6},
      {"gemma3_text", 6}, {"gemma3n", 5}, {"gemma3n_text", 5}};
  for (const auto& [known, pattern] : kPatterns) {
    if (model_type == known) return pattern;
  }
  return 0;
}

// Marks the layers with a window where no member says it of each layer: every n-th layer has none
// (Gemma), the first ones have none (Qwen), or all have one (Mistral).
absl::Status MarkWindows(const ConfigMembers& members, LayerKinds* kinds) {
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> said,
                       members.Number({"sliding_window_pattern", "_sliding_window_pattern"}));
  const uint64_t pattern = said.value_or(DefaultPattern(members.SharedText({"model_type"})));
  std::optional<uint64_t> first_without;
  if (pattern == 0 && members.IsTrue("use_sliding_window")) {
    KVT_ASSIGN_OR_RETURN(first_without, members.Number({"max_window_layers"}));
  }
  for (size_t layer = first_without.value_or(0); layer < kinds->size(); ++layer) {
    LayerKind& kind = (*kinds)[layer];
    const bool is_full = pattern != 0 && (layer + 1) % pattern == 0;
    if (kind == LayerKind::kFull && !is_full) kind = LayerKind::kWindow;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ConfigLayers> LayersOf(const ConfigMembers& members, const ModelFacts& given) {
  const bool names_each = members.Has({"layer_types"});
  const bool uses_windows = names_each || !members.IsFalse("use_sliding_window");
  ConfigLayers layers{.window = given.window};
  if (given.window == 0 && uses_windows) {
    KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> window,
                         members.Number({"sliding_window", "attention_window_size"}));
    // A part is published without its window where that is the default of its class.
    if (!window.has_value() && !names_each && members.IsPart() &&
        DefaultPattern(members.SharedText({"model_type"})) != 0) {
      return absl::InvalidArgumentError("there is no sliding_window; give --window");
    }
    layers.window = window.value_or(0);
  }
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
  if (layers.window != 0 && given.window_layers == 0 && uses_windows && !names_each) {
    const absl::Status marked = MarkWindows(members, &*kinds);
    if (!marked.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(marked.message(), "; --window-layers can stand for it"));
    }
  }
  layers.layers = kinds->size() - std::ranges::count(*kinds, LayerKind::kWithoutKv);
  layers.window_layers = std::ranges::count(*kinds, LayerKind::kWindow);
  if (layers.window_layers != 0 && layers.window == 0) {
    return absl::InvalidArgumentError(
        "some layers are sliding_attention, and there is no sliding_window; give --window");
  }
  if (given.window_layers != 0) layers.window_layers = given.window_layers;
  if (layers.window_layers == 0) layers.window = 0;
  return layers;
}

}  // namespace kvtier::cli
