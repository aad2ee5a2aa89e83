#include "cli/config_table.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace kvtier::cli {
namespace {

// In the lists below a star at the start or at the end of a name stands for any text. A name with a
// star inside has one at both ends.

constexpr absl::string_view kCounted[] = {
    // Layers.
    "num_hidden_layers", "n_layer", "n_layers", "num_layers", "layer_types", "layers_block_type",
    "hybrid_override_pattern", "hybrid_layer_pattern", "attn_type_list", "attn_layer_indices",
    "full_attn_idxs", "block_types", "block_configs", "linear_attn_config",
    "full_attention_interval", "attn_layer_period", "attn_layer_offset", "num_kv_shared_layers",
    "use_cla", "cla_share_factor",
    // Windows.
    "sliding_window", "sliding_window_size", "attention_window_size", "attention_chunk_size",
    "use_sliding_window", "max_window_layers", "sliding_window_pattern", "_sliding_window_pattern",
    "layer_switch", "no_rope_layers", "no_rope_layer_interval",
    // Heads.
    "num_attention_heads", "n_head", "n_heads", "num_heads", "num_key_value_heads", "num_kv_heads",
    "n_head_kv", "n_kv_heads", "num_attention_groups", "num_query_groups", "multi_query",
    "new_decoder_architecture", "multi_query_attention", "multi_query_group_num", "attn_config",
    "num_key_value_heads_per_layer", "head_dim", "attention_head_dim", "kv_channels", "hidden_size",
    "n_embd", "n_embed", "d_model", "dim", "v_head_dim", "global_head_dim",
    "num_global_key_value_heads", "attention_k_eq_v", "swa_num_key_value_heads", "swa_head_dim",
    "swa_v_head_dim", "attention_other_setting",
    // Latents and their indexes.
    "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "use_mla", "index_head_dim",
    "index_topk", "indexer_types",
    // The model itself.
    "model_type", "dtype", "torch_dtype", "quantization_config", "compression_config",
    "quantization", "is_encoder_decoder", "use_bidirectional_attention"};

constexpr absl::string_view kOfLayers[] = {"mamba_*",
                                           "*_mamba_*",
                                           "*mamba",
                                           "*mambapy",
                                           "*mamba2*",
                                           "ssm_*",
                                           "linear_*",
                                           "conv*",
                                           "*conv_bias",
                                           "*_conv_states",
                                           "lightning_*",
                                           "hybrid_*",
                                           "attn_layer_*",
                                           "time_step_*",
                                           "chunk_size",
                                           "state_size",
                                           "global_attn_every_n_layers",
                                           "global_attention_interval",
                                           "prefix_dense_sliding_window_pattern",
                                           "linear_attn_*",
                                           "local_layer_ids"};

constexpr absl::string_view kIgnored[] = {
    // Parts of the model that keep nothing.
    "*_norm", "*_norm_*", "*_norms", "*layernorm", "*layernorm_*", "layer_norm*", "*rmsnorm*",
    "*dropout*", "*pdrop*", "*layerdrop*", "*bias*", "*expert*", "*moe*", "*mlp*", "*ffn*",
    "*feed_forward*", "*embed*", "embd_layer", "lm_head*", "*dense_layers", "decoder_sparse_step",
    "activation_sparsity_pattern", "shared_intermediate_size", "*_per_layer_input",
    // Positions, scales and how attention is computed.
    "*rope*", "*rotary*", "*scale*", "*scaling*", "*multiplier*", "*softcapping*", "*softmax*",
    "*temperature_tuning", "full_attn_alpha_factor", "full_attn_beta_factor",
    "linear_attn_alpha_factor", "linear_attn_beta_factor", "query_pre_attn_scalar",
    "attn_output_gate", "use_head_wise_attn_gate", "parallel_attn", "parallel_attn_mlp_res",
    "reorder_and_upcast_attn", "use_logn_attn", "share_q_dim", "attn_implementation",
    "_attn_implementation*", "attn_impl", "attention_method", "*flash_attn*", "*flash_attention*",
    "full_attn_mod", "num_ln_in_parallel_attn", "attention_hidden_size",
    "use_shared_attention_adapter", "mla_use_nope", "order_of_interleaved_layers",
    "swa_num_attention_heads", "qk_head_dim", "index_n_heads", "num_sliding_attention_heads",
    "indexer_rope_*",
    // Draft models, which keep their own.
    "mtp_*", "*_mtp_*", "num_mtp*", "*nextn*", "use_mtp*",
    // Other modalities, their tokens, and the tokenizer.
    "*vision*", "*visual*", "*image*", "*audio*", "*video*", "*speech*", "*token_id*",
    "*token_index", "vit_*", "select_layer", "seconds_per_chunk", "global_view_pos", "ignore_index",
    "freeze_*",
    // How an engine runs and trains, and what transformers writes for every model.
    "use_cache", "use_cache_kernel", "pad_key_length", "pre_allocate_kv_cache",
    "cache_implementation", "is_decoder", "tie_encoder_decoder", "*ngram*", "output_attentions",
    "*hidden_states*", "pruned_heads"};

constexpr absl::string_view kOfType[] = {"*cache*dtype*", "*cache*quant*", "*cache*scheme*",
                                         "*cache*bits*"};

// A member is suspect if its name has one of these texts.
constexpr absl::string_view kSuspectTexts[] = {
    "attn",   "attention", "head",   "layer",   "window", "cache",  "compress", "latent",
    "mamba",  "ssm",       "linear", "conv",    "recur",  "state",  "chunk",    "sliding",
    "local",  "global",    "sparse", "index",   "shar",   "hybrid", "pattern",  "interval",
    "period", "stride",    "sink",   "cross",   "memory", "skip",   "loop",     "cycle",
    "repeat", "unroll",    "evict",  "prun",    "retain", "budget", "decoder",  "encoder",
    "delta",  "retention", "reuse",  "low_rank"};
// A member is suspect, too, if its name has one of these words between underscores.
constexpr absl::string_view kSuspectWords[] = {"kv",  "key", "keys", "cla", "mla",  "swa", "mha",
                                               "gqa", "mqa", "nsa",  "dsa", "csa",  "hca", "kda",
                                               "gla", "cca", "msa",  "ut",  "yoco", "moba"};

bool Matches(absl::string_view pattern, absl::string_view name) {
  const bool any_start = absl::ConsumePrefix(&pattern, "*");
  const bool any_end = absl::ConsumeSuffix(&pattern, "*");
  const size_t star = pattern.find('*');
  if (star != absl::string_view::npos) {  // Texts on both sides of a star in the middle.
    const size_t first = name.find(pattern.substr(0, star));
    return first != absl::string_view::npos &&
           absl::StrContains(name.substr(first + star), pattern.substr(star + 1));
  }
  if (any_start && any_end) return absl::StrContains(name, pattern);
  if (any_start) return absl::EndsWith(name, pattern);
  return any_end ? absl::StartsWith(name, pattern) : name == pattern;
}

bool IsIn(std::span<const absl::string_view> patterns, absl::string_view name) {
  return std::ranges::any_of(patterns, [&](absl::string_view p) { return Matches(p, name); });
}

bool IsSuspect(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (const absl::string_view text : kSuspectTexts) {
    if (absl::StrContains(lower, text)) return true;
  }
  const std::vector<absl::string_view> words = absl::StrSplit(lower, '_');
  return std::ranges::any_of(words, [](absl::string_view word) {
    return std::ranges::find(kSuspectWords, word) != std::end(kSuspectWords);
  });
}

// The defaults of transformers for classes whose configs are published without them.
constexpr ClassDefaults kDefaults[] = {
    {.type = "cohere2",
     .hidden_size = 8192,
     .layers = 40,
     .heads = 64,
     .window = 4096,
     .window_pattern = 4},
    {.type = "gemma",
     .hidden_size = 3072,
     .layers = 28,
     .heads = 16,
     .kv_heads = 16,
     .head_dim = 256},
    {.type = "gemma2",
     .hidden_size = 2304,
     .layers = 26,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 256,
     .window = 4096,
     .window_pattern = 2},
    {.type = "gemma3_text",
     .hidden_size = 2304,
     .layers = 26,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 256,
     .window = 4096,
     .window_pattern = 6},
    {.type = "gemma3n_text",
     .hidden_size = 2048,
     .layers = 35,
     .heads = 8,
     .kv_heads = 2,
     .head_dim = 256,
     .window = 512,
     .window_pattern = 5},
    {.type = "gemma4_text",
     .hidden_size = 2304,
     .layers = 30,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 256,
     .window = 512,
     .window_pattern = 6,
     .global_head_dim = 512},
    {.type = "glm", .hidden_size = 4096, .layers = 40, .heads = 32, .kv_heads = 2, .head_dim = 128},
    {.type = "glm4",
     .hidden_size = 4096,
     .layers = 40,
     .heads = 32,
     .kv_heads = 2,
     .head_dim = 128},
    {.type = "gpt_oss",
     .hidden_size = 2880,
     .layers = 36,
     .heads = 64,
     .kv_heads = 8,
     .head_dim = 64,
     .window = 128,
     .window_pattern = 2},
    {.type = "llama", .hidden_size = 4096, .layers = 32, .heads = 32},
    {.type = "mistral",
     .hidden_size = 4096,
     .layers = 32,
     .heads = 32,
     .kv_heads = 8,
     .window = 4096},
    {.type = "mixtral", .hidden_size = 4096, .layers = 32, .heads = 32, .kv_heads = 8},
    {.type = "phi3", .hidden_size = 3072, .layers = 32, .heads = 32},
    {.type = "qwen2", .hidden_size = 4096, .layers = 32, .heads = 32, .kv_heads = 32},
    {.type = "qwen3",
     .hidden_size = 4096,
     .layers = 32,
     .heads = 32,
     .kv_heads = 32,
     .head_dim = 128},
};

// Types that begin so have a width of heads of their own by default.
constexpr absl::string_view kHeadWidths[] = {
    "afmoe",  "apertus",  "cohere2_moe", "cwm",        "ernie4_5",   "gemma",
    "glm",    "gpt_oss",  "helium",      "hunyuan",    "hy_",        "laguna",
    "llama4", "mimo_v2",  "minimax",     "ministral3", "nemotron_h", "qwen3",
    "qwen4",  "seed_oss", "solar_open",  "step3",      "vaultgemma"};

struct Refused {
  absl::string_view type;  // A pattern.
  absl::string_view why;
};

constexpr absl::string_view kFixedState =
    "keeps a state of a fixed size and no keys and values: there is no KV";
constexpr absl::string_view kEncoder =
    "encodes whole texts and keeps no keys and values: there is no KV";
constexpr Refused kRefused[] = {{"mamba", kFixedState},
                                {"mamba2", kFixedState},
                                {"falcon_mamba", kFixedState},
                                {"rwkv*", kFixedState},
                                {"xlstm", kFixedState},
                                {"retnet", kFixedState},
                                {"albert", kEncoder},
                                {"bert", kEncoder},
                                {"camembert", kEncoder},
                                {"deberta*", kEncoder},
                                {"distilbert", kEncoder},
                                {"electra", kEncoder},
                                {"eurobert", kEncoder},
                                {"modernbert", kEncoder},
                                {"mpnet", kEncoder},
                                {"new", kEncoder},
                                {"nomic_bert", kEncoder},
                                {"roberta", kEncoder},
                                {"xlm-roberta*", kEncoder},
                                {"*_vision_model", kEncoder},
                                {"clip*", kEncoder},
                                {"siglip*", kEncoder},
                                {"vit", kEncoder},
                                {"esm*", kEncoder}};

constexpr const char* kTextModels[] = {
    "text_config",           "llm_config", "language_config",  "thinker_config",
    "language_model_config", "lm_config",  "text_model_config"};

}  // namespace

MemberRole RoleOf(absl::string_view name) {
  if (std::ranges::find(kCounted, name) != std::end(kCounted)) return MemberRole::kCounted;
  if (IsIn(kOfLayers, name)) return MemberRole::kOfLayers;
  if (IsIn(kOfType, name)) return MemberRole::kOfType;
  if (IsIn(kIgnored, name)) return MemberRole::kIgnored;
  return IsSuspect(name) ? MemberRole::kSuspect : MemberRole::kIgnored;
}

MemberRole RoleInAttention(absl::string_view name) {
  if (name == "attn_type" || name == "kv_n_heads") return MemberRole::kCounted;
  if (name == "attn_uses_sequence_id") return MemberRole::kIgnored;
  const MemberRole role = RoleOf(name);
  const bool is_plain = name == "model_type" || name == "dtype" || name == "torch_dtype";
  return role == MemberRole::kIgnored || is_plain ? MemberRole::kIgnored : MemberRole::kSuspect;
}

const ClassDefaults* DefaultsOf(absl::string_view model_type) {
  // A config of several models may name the class of all of them where the text model names none.
  const std::string text = absl::StrCat(model_type, "_text");
  for (const ClassDefaults& defaults : kDefaults) {
    if (defaults.type == model_type || defaults.type == text) return &defaults;
  }
  return nullptr;
}

bool HasHeadWidthByDefault(absl::string_view model_type) {
  return std::ranges::any_of(
      kHeadWidths, [&](absl::string_view type) { return absl::StartsWith(model_type, type); });
}

absl::string_view WhyNotCounted(absl::string_view model_type) {
  for (const Refused& refused : kRefused) {
    if (Matches(refused.type, model_type)) return refused.why;
  }
  return "";
}

std::span<const char* const> TextModelNames() { return kTextModels; }

}  // namespace kvtier::cli
