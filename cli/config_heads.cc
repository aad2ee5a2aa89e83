#include "cli/config_heads.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/config_table.h"
#include "core/status_macros.h"

namespace kvtier::cli {
namespace {

std::string ClassOf(const ConfigMembers& members) { return members.SharedText({"model_type"}); }

// Returns whether all query heads share one KV head.
bool IsMultiQuery(const ConfigMembers& members) {
  if (members.Inner("attn_config").Text({"attn_type"}) == "multiquery_attention") return true;
  // Falcon's newer decoders keep `multi_query` for what num_kv_heads says.
  if (members.IsTrue("new_decoder_architecture")) return false;
  const std::string type = ClassOf(members);
  const bool is_by_default = type == "falcon" || type == "gpt_bigcode";
  return members.IsTrue("multi_query") || (is_by_default && !members.IsFalse("multi_query"));
}

// Checks a number of heads or of their width that a member says.
absl::StatusOr<uint64_t> Checked(const char* name, uint64_t number, uint64_t most,
                                 const char* option) {
  if (number >= 1 && number <= most) return number;
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be 1 to ", most, ", not ", number, "; give ", option));
}

absl::StatusOr<uint64_t> KvHeadsOf(const ConfigMembers& members, uint64_t heads) {
  if (IsMultiQuery(members)) return 1;
  if (members.IsTrue("multi_query_attention")) {  // ChatGLM.
    return members.NumberUnless(0, {"multi_query_group_num"}, "--kv-heads");
  }
  for (const char* name : {"num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads",
                           "num_attention_groups", "num_query_groups"}) {
    KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> said, members.Number({name}));
    if (said.has_value()) return Checked(name, *said, kMaxHeads, "--kv-heads");
  }
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> inner,
                       members.Inner("attn_config").Number({"kv_n_heads"}));  // MPT.
  if (inner.has_value()) return Checked("kv_n_heads", *inner, kMaxHeads, "--kv-heads");
  const bool has_other_default = members.IsPart() || HasHeadWidthByDefault(ClassOf(members));
  if (has_other_default && DefaultsOf(ClassOf(members)) == nullptr) {
    return absl::InvalidArgumentError("there is no num_key_value_heads; give --kv-heads");
  }
  if (heads == 0)
    return absl::InvalidArgumentError("there is no num_attention_heads; give --heads");
  return heads;
}

absl::StatusOr<uint64_t> HeadDimOf(const ConfigMembers& members, uint64_t heads) {
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> said,
                       members.Number({"head_dim", "attention_head_dim", "kv_channels"}));
  if (said.has_value()) return Checked("head_dim", *said, kMaxHeadDim, "--head-dim");
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> hidden,
                       members.Number({"hidden_size", "n_embd", "n_embed", "d_model", "dim"}));
  const bool has_other_default =
      HasHeadWidthByDefault(ClassOf(members)) && DefaultsOf(ClassOf(members)) == nullptr;
  if (!hidden.has_value() || heads == 0 || has_other_default) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no head_dim",
        !hidden.has_value() ? " and no hidden_size" : (heads == 0 ? " and no number of heads" : ""),
        "; give --head-dim"));
  }
  if (*hidden % heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no head_dim, and hidden_size ", *hidden,
                     " is no multiple of num_attention_heads ", heads, "; give --head-dim"));
  }
  return *hidden / heads;
}

// Returns the bytes of the keys of an index by which latent attention chooses tokens, of one token
// in all layers: each number in 8 bits, and a scale of 4 bytes for each 128 of them.
absl::StatusOr<uint64_t> IndexBytesOf(const ConfigMembers& members, const ConfigLayers& layers) {
  constexpr uint64_t kScaledNumbers = 128;
  constexpr uint64_t kScaleBytes = 4;
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> width, members.Number({"index_head_dim"}));
  if (width.value_or(0) == 0) {
    if (!members.Has({"index_topk"})) return 0;
    return absl::InvalidArgumentError(
        "there is an index_topk and no index_head_dim; leave --config out, and give the facts");
  }
  if (*width % kScaledNumbers != 0 || *width > kMaxHeadDim) {
    return absl::InvalidArgumentError(
        absl::StrCat("index_head_dim must be a multiple of ", kScaledNumbers, " up to ",
                     kMaxHeadDim, ", not ", *width, "; leave --config out, and give the facts"));
  }
  uint64_t indexes = layers.layers;
  if (members.Has({"indexer_types"})) {
    KVT_ASSIGN_OR_RETURN(const std::vector<std::string> types, members.Texts("indexer_types"));
    const uint64_t full = std::ranges::count(types, "full");
    const uint64_t shared = std::ranges::count(types, "shared");
    if (full + shared != types.size() || types.size() != layers.layers) {
      return absl::InvalidArgumentError(
          absl::StrCat("indexer_types must have 'full' or 'shared' for each of ", layers.layers,
                       " layers; leave --config out, and give the facts"));
    }
    indexes = full;
  }
  return indexes * (*width + *width / kScaledNumbers * kScaleBytes);
}

// Fills in the latent vector, if the model has one that no option replaces, and the width of its
// attention as far as the members say it.
absl::Status TakeLatent(const ConfigMembers& members, const ModelFacts& given,
                        const ConfigLayers& layers, ModelFacts* facts) {
  std::optional<uint64_t> latent;
  if (!members.IsFalse("use_mla")) {
    KVT_ASSIGN_OR_RETURN(latent, members.Number({"kv_lora_rank"}));
  }
  if (latent.value_or(0) == 0) {
    facts->latent_dim = given.latent_dim;
    KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> part, members.Number({"qk_nope_head_dim"}));
    const bool has_heads =
        given.latent_dim != 0 || given.head_dim != 0 || members.IsFalse("use_mla");
    if (part.value_or(0) == 0 || has_heads) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "qk_nope_head_dim ", *part,
        " shows latent attention, and no kv_lora_rank says its width; give --latent, or "
        "--kv-heads and --head-dim"));
  }
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> rotated, members.Number({"qk_rope_head_dim"}));
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> plain, members.Number({"qk_nope_head_dim"}));
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> value, members.Number({"v_head_dim"}));
  if (given.latent_dim == 0 && !rotated.has_value()) {
    return absl::InvalidArgumentError("there is no qk_rope_head_dim; give --latent");
  }
  facts->latent_dim = given.latent_dim != 0 ? given.latent_dim : *latent + *rotated;
  if (rotated.has_value() && plain.has_value() && value.has_value()) {
    facts->attention_width = facts->heads * (*plain + *rotated + *value) / 2;
  }
  KVT_ASSIGN_OR_RETURN(facts->index_bytes, IndexBytesOf(members, layers));
  return absl::OkStatus();
}

// The numbers that a layer keeps of a token.
struct Shape {
  uint64_t kv_heads = 0;
  uint64_t key_dim = 0;
  uint64_t value_dim = 0;

  uint64_t numbers() const { return kv_heads * (key_dim + value_dim); }
  friend bool operator==(const Shape&, const Shape&) = default;
};

// The members that say the fields of a shape; nullptr: none does.
struct ShapeNames {
  const char* kv_heads;
  const char* key_dim;
  const char* value_dim;
};

// Returns the shape whose fields the members say, and those of `base` where they do not.
absl::StatusOr<Shape> ShapeOf(const ConfigMembers& members, const ShapeNames& names, Shape base) {
  const auto take = [&](const char* name, uint64_t most, uint64_t* field) -> absl::Status {
    KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> said, members.Number({name}));
    if (!said.has_value()) return absl::OkStatus();
    KVT_ASSIGN_OR_RETURN(*field, Checked(name, *said, most, "the facts without --config"));
    return absl::OkStatus();
  };
  if (names.kv_heads != nullptr) {
    KVT_RETURN_IF_ERROR(take(names.kv_heads, kMaxHeads, &base.kv_heads));
  }
  const uint64_t key_dim = base.key_dim;
  KVT_RETURN_IF_ERROR(take(names.key_dim, kMaxHeadDim, &base.key_dim));
  if (base.value_dim == key_dim) base.value_dim = base.key_dim;
  if (names.value_dim != nullptr) {
    KVT_RETURN_IF_ERROR(take(names.value_dim, kMaxHeadDim, &base.value_dim));
  }
  return base;
}

// Fills in what is kept where layers differ in their heads, or values in their width from keys.
absl::Status TakeShapes(const ConfigMembers& members, const ConfigLayers& layers,
                        ModelFacts* facts) {
  Shape base{.kv_heads = facts->kv_heads, .key_dim = facts->head_dim, .value_dim = facts->head_dim};
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> value_dim, members.Number({"v_head_dim"}));
  // Beside use_mla, it is that of the latent attention that the model does not use.
  if (value_dim.value_or(0) != 0 && !members.IsFalse("use_mla")) {
    KVT_ASSIGN_OR_RETURN(base.value_dim, Checked("v_head_dim", *value_dim, kMaxHeadDim,
                                                 "the facts without --config"));
  }
  if (members.IsClass("gemma4") && !members.Has({"global_head_dim"})) {
    return absl::InvalidArgumentError(
        "there is no global_head_dim, and the class has one by default; leave --config out, and "
        "give the facts");
  }
  if (members.IsClass("mimo_v2") && layers.window_layers != 0 &&
      !members.Has({"swa_num_key_value_heads"})) {
    return absl::InvalidArgumentError(
        "there is no swa_num_key_value_heads, and the class has twice as many KV heads in layers "
        "with a window; leave --config out, and give the facts");
  }
  // The layers without a window of Gemma 4, and those with one of MiMo. The former have other KV
  // heads only where their keys are their values.
  const bool has_global_heads = members.IsTrue("attention_k_eq_v");
  KVT_ASSIGN_OR_RETURN(const Shape full,
                       ShapeOf(members,
                               {has_global_heads ? "num_global_key_value_heads" : nullptr,
                                "global_head_dim", nullptr},
                               base));
  KVT_ASSIGN_OR_RETURN(
      const Shape window,
      ShapeOf(members, {"swa_num_key_value_heads", "swa_head_dim", "swa_v_head_dim"}, base));
  // Step 3.5: what its layers with a window have.
  const ConfigMembers other = members.Inner("attention_other_setting");
  KVT_ASSIGN_OR_RETURN(const Shape also,
                       ShapeOf(other, {"num_attention_groups", "head_dim", nullptr}, window));
  const uint64_t full_layers = layers.layers - layers.window_layers;
  const bool has_full = full_layers != 0;
  const bool has_window = layers.window_layers != 0;
  const Shape& first = has_full ? full : also;
  const bool is_one = !has_full || !has_window || full == also;
  if (is_one && first.key_dim == first.value_dim && layers.kv_heads.empty()) {
    facts->kv_heads = first.kv_heads;
    facts->head_dim = first.key_dim;
    return absl::OkStatus();
  }
  facts->full_numbers = full_layers * full.numbers();
  facts->window_numbers = layers.window_layers * also.numbers();
  if (!layers.kv_heads.empty()) {
    if (has_window || !(full == base)) {
      return absl::InvalidArgumentError(
          "the layers differ in their KV heads and in their windows or the widths of their heads, "
          "which cannot be counted; leave --config out");
    }
    facts->full_numbers = 0;
    for (const uint64_t kv_heads : layers.kv_heads) {
      KVT_ASSIGN_OR_RETURN(const uint64_t checked,
                           Checked("the number of KV heads of a layer", kv_heads, kMaxHeads,
                                   "the facts without --config"));
      facts->full_numbers += checked * (base.key_dim + base.value_dim);
    }
    facts->attention_width = facts->heads * base.key_dim;
  }
  facts->kv_heads = 0;
  facts->head_dim = 0;
  return absl::OkStatus();
}

}  // namespace

absl::Status TakeHeads(const ConfigMembers& members, const ModelFacts& given,
                       const ConfigLayers& layers, ModelFacts* facts) {
  facts->heads = given.heads;
  if (given.heads == 0) {
    KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> heads,
                         members.Number({"num_attention_heads", "n_head", "n_heads", "num_heads"}));
    facts->heads = heads.value_or(0);
  }
  if (given.kv_heads == 0 || given.latent_dim != 0) {
    KVT_RETURN_IF_ERROR(TakeLatent(members, given, layers, facts));
    if (facts->latent_dim != 0) return absl::OkStatus();
  }
  for (const char* name : {"index_head_dim", "index_topk"}) {
    if (!members.Has({name})) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, " (", members.Shown(name),
                     ") shows an index beside heads, and what it keeps is not known; leave "
                     "--config out, and give the facts"));
  }
  facts->kv_heads = given.kv_heads;
  ConfigLayers shapes = layers;
  const std::vector<uint64_t>& listed = layers.kv_heads;
  if (given.kv_heads != 0) {
    shapes.kv_heads.clear();
  } else if (!listed.empty()) {
    // One number for all layers needs no list.
    facts->kv_heads = listed.front();
    if (std::ranges::count(listed, listed.front()) == std::ssize(listed)) shapes.kv_heads.clear();
  } else {
    KVT_ASSIGN_OR_RETURN(facts->kv_heads, KvHeadsOf(members, facts->heads));
  }
  facts->head_dim = given.head_dim;
  if (given.head_dim == 0) {
    KVT_ASSIGN_OR_RETURN(facts->head_dim, HeadDimOf(members, facts->heads));
  }
  return TakeShapes(members, shapes, facts);
}

}  // namespace kvtier::cli
