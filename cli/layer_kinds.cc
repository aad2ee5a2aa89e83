#include "cli/layer_kinds.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/config_table.h"
#include "cli/model_facts.h"
#include "core/status_macros.h"

namespace kvtier::cli {
namespace {

constexpr size_t kMaxShownKind = 40;  // Bytes of an unknown kind that an error shows.

// Returns the error of a config that does not say which layers have attention.
absl::Status UnknownLayers(absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(why, "; give --layers, the number of layers with attention"));
}

absl::StatusOr<std::optional<uint64_t>> LayersSaidBy(const ConfigMembers& members) {
  return members.Number({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
}

absl::StatusOr<LayerKind> KindNamed(const ConfigMembers& members, const char* name,
                                    const std::string& kind) {
  static constexpr std::pair<absl::string_view, LayerKind> kKinds[] = {
      {"full_attention", LayerKind::kFull},
      {"attention", LayerKind::kFull},
      {"indexed_attention", LayerKind::kFull},
      {"deepseek_sparse_attention", LayerKind::kFull},
      {"sliding_attention", LayerKind::kWindow},
      {"chunked_attention", LayerKind::kChunk},
      {"linear_attention", LayerKind::kWithoutKv},
      {"mamba", LayerKind::kWithoutKv},
      {"conv", LayerKind::kWithoutKv},
      {"recurrent", LayerKind::kWithoutKv},
      {"mlp", LayerKind::kWithoutKv},
      {"moe", LayerKind::kWithoutKv}};
  for (const auto& [known, value] : kKinds) {
    if (kind == known) return value;
  }
  // A hybrid layer of these classes has attention beside a state of a fixed size.
  if (kind == "hybrid" && (members.IsClass("zamba2") || members.IsClass("falcon_h1"))) {
    return LayerKind::kFull;
  }
  return UnknownLayers(absl::StrCat(
      name, " has '", kind.substr(0, kMaxShownKind),
      "', a kind that is not known; must be full_attention, attention, sliding_attention or ",
      "chunked_attention, or linear_attention, mamba, conv, recurrent, mlp or moe"));
}

absl::StatusOr<LayerKinds> KindsNamed(const ConfigMembers& members, const char* name) {
  KVT_ASSIGN_OR_RETURN(const std::vector<std::string> names, members.Texts(name));
  LayerKinds kinds;
  for (const std::string& kind : names) {
    KVT_ASSIGN_OR_RETURN(const LayerKind value, KindNamed(members, name, kind));
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

// Returns the kinds where a list has 1 for each layer with a window, and 0 for each other (MiMo).
absl::StatusOr<LayerKinds> KindsWindowed(const ConfigMembers& members, const char* name) {
  KVT_ASSIGN_OR_RETURN(LayerKinds kinds, KindsFlagged(members, name));
  for (LayerKind& kind : kinds) {
    kind = kind == LayerKind::kFull ? LayerKind::kWindow : LayerKind::kFull;
  }
  return kinds;
}

// Returns the kinds where a list names the layers with attention, the first layer being `first`.
absl::StatusOr<LayerKinds> KindsListed(const ConfigMembers& members, const char* name,
                                       uint64_t first, uint64_t layers) {
  KVT_ASSIGN_OR_RETURN(const std::vector<uint64_t> listed, members.Numbers(name));
  LayerKinds kinds(layers, LayerKind::kWithoutKv);
  for (const uint64_t layer : listed) {
    if (layer < first || layer - first >= layers) {
      return UnknownLayers(absl::StrCat(name, " has ", layer, ", and must be ", first, " to ",
                                        layers + first - 1, ", because num_hidden_layers is ",
                                        layers));
    }
    kinds[layer - first] = LayerKind::kFull;
  }
  return kinds;
}

// Returns the KV heads of a layer whose attention a block config describes (Nemotron of neural
// architecture search); 0: the layer keeps no KV.
absl::StatusOr<uint64_t> KvHeadsInBlock(const ConfigMembers& block, uint64_t heads) {
  const ConfigMembers attention = block.Inner("attention");
  if (!block.Has({"attention"})) {
    return UnknownLayers("block_configs has a block without 'attention'");
  }
  if (attention.IsTrue("no_op") || attention.IsTrue("replace_with_linear")) return 0;
  for (const std::string& name : attention.Names()) {
    const bool is_known = name == "n_heads_in_group" || name == "num_key_value_heads" ||
                          name == "num_attention_heads";
    if (!is_known && !attention.IsFalse(name.c_str())) {
      return UnknownLayers(absl::StrCat("block_configs has attention with ",
                                        name.substr(0, kMaxShownKind), " (", attention.Shown(name),
                                        "), which is not known"));
    }
  }
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> said,
                       attention.Number({"num_key_value_heads"}));
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> group, attention.Number({"n_heads_in_group"}));
  if (said.value_or(0) != 0) return *said;
  if (group.value_or(0) == 0 || heads == 0 || heads % *group != 0) {
    return absl::InvalidArgumentError(absl::StrCat("n_heads_in_group of block_configs is ",
                                                   group.value_or(0),
                                                   ", and must divide num_attention_heads, ", heads,
                                                   "; leave --config out, and give the facts"));
  }
  return heads / *group;
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

// Returns the kinds of layers that some rule gives; nullopt: no member has a rule.
absl::StatusOr<std::optional<LayerKinds>> KindsByRule(const ConfigMembers& members,
                                                      uint64_t layers) {
  for (const char* name : {"attn_layer_indices", "full_attn_idxs"}) {  // Bamba, LFM2.
    if (members.Has({name})) return KindsListed(members, name, 0, layers);
  }
  const ConfigMembers linear = members.Inner("linear_attn_config");  // Kimi Linear.
  if (linear.Has({"full_attn_layers"})) return KindsListed(linear, "full_attn_layers", 1, layers);
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
  if (period.has_value() && offset.has_value() && !members.IsClass("zamba")) {
    return KindsEvery("attn_layer_period and attn_layer_offset", *period, *offset, layers);
  }
  // Each layer of Falcon-H1 has attention beside a state.
  if (members.IsClass("falcon_h1")) return LayerKinds(layers, LayerKind::kFull);
  return std::nullopt;
}

// Returns the kinds that a list says of each layer; nullopt: there is no such list.
absl::StatusOr<std::optional<LayerKinds>> KindsByList(const ConfigMembers& members) {
  using Reader = absl::StatusOr<LayerKinds> (*)(const ConfigMembers&, const char*);
  static constexpr std::pair<const char*, Reader> kLists[] = {
      {"layer_types", KindsNamed},
      {"layers_block_type", KindsNamed},
      {"hybrid_override_pattern", KindsInPattern},
      {"attn_type_list", KindsFlagged}};
  // Nemotron-H ignores num_hidden_layers beside a list.
  const bool ignores_number = members.IsClass("nemotron_h");
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> said, LayersSaidBy(members));
  const auto checked = [&](const char* name,
                           LayerKinds kinds) -> absl::StatusOr<std::optional<LayerKinds>> {
    if (said.has_value() && !ignores_number) {
      KVT_RETURN_IF_ERROR(CheckLength(name, kinds.size(), *said));
    }
    return kinds;
  };
  for (const auto& [name, read] : kLists) {
    if (!members.Has({name})) continue;
    KVT_ASSIGN_OR_RETURN(LayerKinds kinds, read(members, name));
    return checked(name, std::move(kinds));
  }
  if (members.Has({"hybrid_layer_pattern"}) && members.IsClass("mimo_v2")) {
    KVT_ASSIGN_OR_RETURN(LayerKinds kinds, KindsWindowed(members, "hybrid_layer_pattern"));
    return checked("hybrid_layer_pattern", std::move(kinds));
  }
  KVT_ASSIGN_OR_RETURN(const std::vector<uint64_t> kv_heads, KvHeadsOfLayers(members));
  if (kv_heads.empty()) return std::nullopt;
  LayerKinds kinds;
  for (const uint64_t kept : kv_heads) {
    kinds.push_back(kept == 0 ? LayerKind::kWithoutKv : LayerKind::kFull);
  }
  return checked(members.Has({"block_configs"}) ? "block_configs" : "num_key_value_heads_per_layer",
                 std::move(kinds));
}

// Marks the layers that use the keys and values of others.
absl::Status MarkSharing(const ConfigMembers& members, LayerKinds* kinds) {
  // The last layers of Gemma 3n use those of layers before them.
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> sharing,
                       members.Number({"num_kv_shared_layers"}));
  const uint64_t without = std::min<uint64_t>(sharing.value_or(0), kinds->size());
  std::fill(kinds->end() - static_cast<std::ptrdiff_t>(without), kinds->end(),
            LayerKind::kWithoutKv);
  if (members.IsFalse("use_cla")) return absl::OkStatus();
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> factor,
                       members.Number({"cla_share_factor"}));  // Hunyuan-Large.
  if (factor.value_or(1) == 0 || (!factor.has_value() && members.IsTrue("use_cla"))) {
    return UnknownLayers("cla_share_factor must be the number of layers that share, 1 or more");
  }
  for (size_t layer = 0; layer < kinds->size(); ++layer) {
    if (layer % factor.value_or(1) != 0) (*kinds)[layer] = LayerKind::kWithoutKv;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LayerKinds> KindsOfLayers(const ConfigMembers& members, uint64_t given_layers) {
  KVT_ASSIGN_OR_RETURN(std::optional<LayerKinds> kinds, KindsByList(members));
  if (!kinds.has_value()) {
    KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> said, LayersSaidBy(members));
    if (!said.has_value() && given_layers == 0) {
      return absl::InvalidArgumentError("there is no num_hidden_layers; give --layers");
    }
    uint64_t layers = said.value_or(given_layers);
    if (layers == 0 || layers > kMaxLayers) {
      return UnknownLayers(
          absl::StrCat("num_hidden_layers must be 1 to ", kMaxLayers, ", not ", layers));
    }
    // LongCat counts two layers with attention as one.
    if (members.IsClass("longcat_flash") && !members.Has({"num_hidden_layers"})) layers *= 2;
    KVT_ASSIGN_OR_RETURN(kinds, KindsByRule(members, layers));
    if (!kinds.has_value()) {
      std::string hybrid = members.FirstOf(MemberRole::kOfLayers);
      for (const char* name : {"attn_layer_period", "attn_layer_offset", "linear_attn_config",
                               "hybrid_layer_pattern"}) {
        if (hybrid.empty() && members.Has({name})) hybrid = name;
      }
      if (!hybrid.empty()) {
        return UnknownLayers(absl::StrCat(
            hybrid, " shows layers of several kinds, and which of them keep what cannot be told"));
      }
      kinds = LayerKinds(layers, LayerKind::kFull);
    }
  }
  if (kinds->empty() || kinds->size() > kMaxLayers) {
    return UnknownLayers(
        absl::StrCat("the list of layers must have 1 to ", kMaxLayers, ", not ", kinds->size()));
  }
  KVT_RETURN_IF_ERROR(MarkSharing(members, &*kinds));
  return *std::move(kinds);
}

absl::StatusOr<std::vector<uint64_t>> KvHeadsOfLayers(const ConfigMembers& members) {
  if (members.Has({"num_key_value_heads_per_layer"})) {  // DeciLM.
    return members.Numbers("num_key_value_heads_per_layer");
  }
  std::vector<uint64_t> kv_heads;
  if (!members.Has({"block_configs"})) return kv_heads;
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> heads,
                       members.Number({"num_attention_heads", "n_head", "n_heads", "num_heads"}));
  KVT_ASSIGN_OR_RETURN(const std::vector<ConfigMembers> blocks, members.Objects("block_configs"));
  for (const ConfigMembers& block : blocks) {
    KVT_ASSIGN_OR_RETURN(const uint64_t kept, KvHeadsInBlock(block, heads.value_or(0)));
    kv_heads.push_back(kept);
  }
  return kv_heads;
}

absl::Status CheckLength(const char* name, size_t length, uint64_t layers) {
  if (length == layers) return absl::OkStatus();
  return UnknownLayers(
      absl::StrCat(name, " has ", length, " entries and must have num_hidden_layers, ", layers));
}

}  // namespace kvtier::cli
