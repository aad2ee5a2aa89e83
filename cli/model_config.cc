#include "cli/model_config.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/config_layers.h"
#include "cli/config_members.h"
#include "core/status_macros.h"

namespace kvtier::cli {
namespace {

// Returns whether the class of the model has a default for the width of a head, or a number of KV
// heads, that does not follow from its other members: what a config lacks is that default then.
bool HasHeadsByDefault(const ConfigMembers& members) {
  const std::string type = members.SharedText({"model_type"});
  return absl::StartsWith(type, "gemma") || absl::StartsWith(type, "glm4") ||
         absl::StartsWith(type, "gpt_oss") || absl::StartsWith(type, "qwen3");
}

// Returns whether all query heads share one KV head.
bool IsMultiQuery(const ConfigMembers& members) {
  if (members.Inner("attn_config").Text({"attn_type"}) == "multiquery_attention") return true;
  // Falcon's newer decoders keep `multi_query` for what num_kv_heads says.
  if (members.IsTrue("new_decoder_architecture")) return false;
  const std::string type = members.SharedText({"model_type"});
  const bool is_by_default = type == "falcon" || type == "gpt_bigcode";
  return members.IsTrue("multi_query") || (is_by_default && !members.IsFalse("multi_query"));
}

absl::StatusOr<uint64_t> KvHeadsOf(const ConfigMembers& members, uint64_t heads) {
  if (IsMultiQuery(members)) return 1;
  if (members.IsTrue("multi_query_attention")) {  // ChatGLM.
    return members.NumberUnless(0, {"multi_query_group_num"}, "--kv-heads");
  }
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> said,
                       members.Number({"num_key_value_heads", "num_kv_heads", "n_head_kv"}));
  if (said.has_value()) return *said;
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> inner,
                       members.Inner("attn_config").Number({"kv_n_heads"}));  // MPT.
  if (inner.has_value()) return *inner;
  if (members.IsPart() || HasHeadsByDefault(members)) {
    return absl::InvalidArgumentError("there is no num_key_value_heads; give --kv-heads");
  }
  if (heads == 0)
    return absl::InvalidArgumentError("there is no num_attention_heads; give --heads");
  return heads;
}

absl::StatusOr<uint64_t> HeadDimOf(const ConfigMembers& members, uint64_t heads) {
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> said,
                       members.Number({"head_dim", "attention_head_dim", "kv_channels"}));
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> global, members.Number({"global_head_dim"}));
  if (global.has_value() && global != said) {
    return absl::InvalidArgumentError(
        absl::StrCat("global_head_dim ", *global, " shows that some layers have wider heads, and ",
                     "one width stands for all layers; give --head-dim"));
  }
  if (said.has_value()) return *said;
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> hidden,
                       members.Number({"hidden_size", "n_embd", "d_model"}));
  if (!hidden.has_value() || heads == 0 || HasHeadsByDefault(members)) {
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

// Fills in the latent vector, if the model has one that no option replaces, and the width of its
// attention as far as the members say it.
absl::Status TakeLatent(const ConfigMembers& members, const ModelFacts& given, ModelFacts* facts) {
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> latent, members.Number({"kv_lora_rank"}));
  if (latent.value_or(0) == 0) {
    facts->latent_dim = given.latent_dim;
    return absl::OkStatus();
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
  return absl::OkStatus();
}

absl::Status TakeHeads(const ConfigMembers& members, const ModelFacts& given, ModelFacts* facts) {
  facts->heads = given.heads;
  if (given.heads == 0) {
    KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> heads,
                         members.Number({"num_attention_heads", "n_head", "n_heads"}));
    facts->heads = heads.value_or(0);
  }
  if (given.kv_heads == 0 || given.latent_dim != 0) {
    KVT_RETURN_IF_ERROR(TakeLatent(members, given, facts));
    if (facts->latent_dim != 0) return absl::OkStatus();
  }
  facts->kv_heads = given.kv_heads;
  if (given.kv_heads == 0) {
    KVT_ASSIGN_OR_RETURN(facts->kv_heads, KvHeadsOf(members, facts->heads));
  }
  facts->head_dim = given.head_dim;
  if (given.head_dim == 0) {
    KVT_ASSIGN_OR_RETURN(facts->head_dim, HeadDimOf(members, facts->heads));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelFacts> FactsFromConfig(absl::string_view json, const ModelFacts& given) {
  KVT_ASSIGN_OR_RETURN(const ConfigMembers members, ConfigMembers::FromJson(json));
  KVT_ASSIGN_OR_RETURN(const ConfigLayers layers, LayersOf(members, given));
  ModelFacts facts{.layers = layers.layers,
                   .window = layers.window,
                   .window_layers = layers.window_layers,
                   .dtype = members.SharedText({"dtype", "torch_dtype"})};
  KVT_RETURN_IF_ERROR(TakeHeads(members, given, &facts));
  return facts;
}

absl::StatusOr<ModelFacts> FactsFromConfigFile(const std::string& path, const ModelFacts& given) {
  std::error_code ignored;
  const std::string file =
      std::filesystem::is_directory(path, ignored) ? absl::StrCat(path, "/config.json") : path;
  std::ifstream in(file, std::ios::binary);
  std::string text(kMaxConfigBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || in.gcount() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, " cannot be read, or is empty; name a model's config.json"));
  }
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMaxConfigBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, " has more than ", kMaxConfigBytes,
                     " bytes, so it is no model's config.json; name another file"));
  }
  absl::StatusOr<ModelFacts> facts = FactsFromConfig(text, given);
  if (!facts.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", facts.status().message()));
  }
  facts->name = path;
  return facts;
}

}  // namespace kvtier::cli
