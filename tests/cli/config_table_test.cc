// Asks `kvtier size` for models whose config.json has members that decide what is kept in a way of
// their own: each gives the right bytes, or a refusal that names the member.
#include "cli/config_table.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/model_config.h"
#include "cli/size.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier::cli {
namespace {

using ::testing::HasSubstr;

// A config.json on disk, which `kvtier size` is asked about.
class ConfigTableTest : public ::testing::Test {
 protected:
  ~ConfigTableTest() override { std::filesystem::remove(path_); }

  absl::StatusOr<ModelSize> Size(const std::string& json, uint64_t tokens = 1,
                                 const ModelFacts& given = {}) {
    std::ofstream(path_, std::ios::binary) << json;
    return SizeOf({.config = path_, .given = given, .tokens = tokens});
  }
  uint64_t TokenBytes(const std::string& json) {
    const absl::StatusOr<ModelSize> size = Size(json);
    EXPECT_TRUE(size.ok()) << size.status() << "\n" << json;
    return size.ok() ? size->token_bytes : 0;
  }
  uint64_t RequestBytes(const std::string& json, uint64_t tokens) {
    const absl::StatusOr<ModelSize> size = Size(json, tokens);
    EXPECT_TRUE(size.ok()) << size.status() << "\n" << json;
    return size.ok() ? size->request_bytes : 0;
  }
  std::string Error(const std::string& json, const ModelFacts& given = {}) {
    const absl::StatusOr<ModelSize> size = Size(json, 1, given);
    EXPECT_FALSE(size.ok()) << json;
    return std::string(size.status().message());
  }

  const std::string path_ =
      absl::StrCat(::testing::TempDir(),
                   ::testing::UnitTest::GetInstance()->current_test_info()->name(), ".json");
};

// Returns a config of so many layers with 32 heads, 8 KV heads of 128 and bf16, and more members.
std::string Config(uint64_t layers, const std::string& more) {
  return absl::StrCat(
      R"({"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
          "head_dim": 128, "torch_dtype": "bfloat16", "num_hidden_layers": )",
      layers, more.empty() ? "" : ", ", more, "}");
}

// Bytes of a token in a layer of Config().
constexpr uint64_t kLayer = 4096;

// Returns a list of `count` entries, of which each n-th is `nth` and each other one `other`.
std::string ListOf(uint64_t count, uint64_t n, const std::string& nth, const std::string& other) {
  std::vector<std::string> entries;
  for (uint64_t i = 1; i <= count; ++i) entries.push_back(i % n == 0 ? nth : other);
  return absl::StrCat("[", absl::StrJoin(entries, ", "), "]");
}

// Nemotron-Super-49B: 49 of 80 layers have attention, one KV head for 8 query heads of 64.
TEST_F(ConfigTableTest, BlockConfigsSayWhichLayersHaveAttention) {
  const std::string attention =
      R"({"attention": {"n_heads_in_group": 8, "no_op": false, "replace_with_linear": false,
                        "sparsify": null, "window_length": null}, "ffn": {"ffn_mult": 2.6}})";
  const std::string none =
      R"({"attention": {"n_heads_in_group": null, "no_op": true}, "ffn": {"no_op": false}})";
  const std::string linear = R"({"attention": {"replace_with_linear": true}, "ffn": {}})";
  const auto nemotron = [](const std::string& blocks) {
    return absl::StrCat(R"({"model_type": "nemotron-nas", "hidden_size": 8192,
        "num_attention_heads": 64, "num_key_value_heads": null, "num_hidden_layers": 80,
        "torch_dtype": "bfloat16", "block_configs": )",
                        blocks, "}");
  };
  std::vector<std::string> blocks(49, attention);
  blocks.resize(60, none);
  blocks.resize(80, linear);
  EXPECT_EQ(TokenBytes(nemotron("[" + absl::StrJoin(blocks, ", ") + "]")), 200'704u);
  // Layers may differ in their heads: 49 of 8 KV heads and 31 of 4.
  std::vector<std::string> mixed(49, attention);
  mixed.resize(80, R"({"attention": {"n_heads_in_group": 16}, "ffn": {}})");
  const std::string json = nemotron("[" + absl::StrJoin(mixed, ", ") + "]");
  EXPECT_EQ(TokenBytes(json), (49u * 8 + 31 * 4) * 2 * 128 * 2);
  EXPECT_THAT(SizeTable(*Size(json)), HasSubstr("KV heads that differ between layers, bfloat16"));
  EXPECT_THAT(Error(json, {.layers = 40}), HasSubstr("its layers differ in their heads"));
  EXPECT_EQ(Size(json, 1, {.kv_heads = 8})->token_bytes, 80 * kLayer);
  mixed[3] = R"({"attention": {"n_heads_in_group": 8, "window_length": 512}})";
  EXPECT_THAT(Error(nemotron("[" + absl::StrJoin(mixed, ", ") + "]")),
              HasSubstr("block_configs has attention with window_length (512)"));
}

// Mistral publishes params.json with names of its own.
TEST_F(ConfigTableTest, ParamsOfMistralAreCounted) {
  const std::string large = R"({"dim": 12288, "n_layers": 88, "head_dim": 128, "hidden_dim": 28672,
      "n_heads": 96, "n_kv_heads": 8, "norm_eps": 1e-05, "vocab_size": 32768, "rope_theta": 1e6,
      "dtype": "bfloat16"})";
  EXPECT_EQ(TokenBytes(large), 360'448u);
  EXPECT_EQ(TokenBytes(R"({"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8,
      "multiple_of": 1024, "ffn_dim_multiplier": 1.3, "dtype": "bfloat16"})"),
            32 * kLayer);
}

// Llama 4 Scout: each fourth layer attends to all tokens, the others to chunks of 8,192.
TEST_F(ConfigTableTest, ChunkedAttentionKeepsItsChunk) {
  for (const std::string which :
       {R"("model_type": "llama4_text", "no_rope_layers": [])", R"("model_type": "llama4_text")",
        R"("no_rope_layer_interval": 4)"}) {
    const std::string json = Config(48, R"("attention_chunk_size": 8192, )" + which);
    EXPECT_EQ(RequestBytes(json, 131'072), 7'650'410'496u) << which;
    EXPECT_EQ(TokenBytes(json), 48 * kLayer);
  }
  for (const std::string& list :
       {R"("no_rope_layers": )" + ListOf(48, 4, "0", "1"),
        R"("layer_types": )" + ListOf(48, 4, R"("full_attention")", R"("chunked_attention")")}) {
    EXPECT_EQ(RequestBytes(Config(48, R"("attention_chunk_size": 8192, )" + list), 131'072),
              7'650'410'496u);
  }
  EXPECT_THAT(Error(Config(48, R"("attention_chunk_size": 8192)")),
              HasSubstr("attention_chunk_size shows layers that keep a chunk"));
  EXPECT_THAT(Error(Config(2, R"("layer_types": ["chunked_attention", "full_attention"])")),
              HasSubstr("there is no attention_chunk_size"));
  EXPECT_THAT(Error(Config(2, R"("sliding_window": 64, "attention_chunk_size": 128)")),
              HasSubstr("show windows of two lengths"));
  // SmolLM3 has the members, and no chunks.
  EXPECT_EQ(TokenBytes(Config(36, R"("no_rope_layer_interval": 4, "use_sliding_window": false)")),
            36 * kLayer);
}

TEST_F(ConfigTableTest, LayersThatShareTheirKvKeepItOnce) {
  EXPECT_EQ(TokenBytes(Config(64, R"("use_cla": true, "cla_share_factor": 2)")), 131'072u);
  EXPECT_EQ(TokenBytes(Config(64, R"("use_cla": false, "cla_share_factor": 2)")), 64 * kLayer);
  EXPECT_THAT(Error(Config(64, R"("use_cla": true)")), HasSubstr("cla_share_factor must be"));
}

// DeepSeek-V3.2 keeps the key of an index beside the latent: 128 numbers of a byte, and a scale.
TEST_F(ConfigTableTest, TheIndexOfALatentIsCounted) {
  const std::string latent = R"({"model_type": "deepseek_v32", "num_hidden_layers": 61,
      "num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512,
      "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "index_n_heads": 64,
      "index_topk": 2048, "torch_dtype": "bfloat16")";
  EXPECT_EQ(TokenBytes(latent + R"(, "index_head_dim": 128})"), 78'324u);
  EXPECT_THAT(Error(latent + "}"), HasSubstr("there is an index_topk and no index_head_dim"));
  EXPECT_THAT(Error(latent + R"(, "index_head_dim": 100})"), HasSubstr("a multiple of 128"));
  EXPECT_THAT(Error(latent + R"(, "index_head_dim": 128})", {.layers = 30}),
              HasSubstr("its layers keep the keys of an index"));
  EXPECT_EQ(TokenBytes(latent + R"(, "index_head_dim": 128, "indexer_types": )" +
                       ListOf(61, 2, R"("shared")", R"("full")") + "}"),
            61u * 1152 + 31 * 132);
  EXPECT_THAT(Error(Config(4, R"("index_head_dim": 128)")), HasSubstr("index_head_dim (128)"));
}

TEST_F(ConfigTableTest, AQuantizedCacheHasItsBits) {
  const auto quantized = [](const std::string& member) {
    return Config(
        32, R"("quantization_config": {"quant_method": "compressed-tensors", )" + member + "}");
  };
  const std::string scheme = R"("kv_cache_scheme": {"num_bits": 8, "type": "float"})";
  EXPECT_EQ(TokenBytes(quantized(scheme)), 16 * kLayer);
  EXPECT_EQ(TokenBytes(quantized(R"("kv_cache_scheme": null)")), 32 * kLayer);
  EXPECT_EQ(TokenBytes(quantized(R"("kv_cache_quant_config": {})")), 32 * kLayer);
  EXPECT_EQ(TokenBytes(quantized(R"("kv_cache_quant_algo": "FP8")")), 16 * kLayer);
  const std::string four = quantized(R"("kv_cache_scheme": {"num_bits": 4})");
  EXPECT_THAT(Error(four), HasSubstr("kv_cache_scheme of quantization_config is {\"num_bits\":4}"));
  EXPECT_EQ(Size(four, 1, {.dtype = "bf16"})->token_bytes, 32 * kLayer);
  // The text model of several, whose quantization is said of all.
  EXPECT_EQ(TokenBytes(R"({"text_config": )" + Config(32, "") + R"(, "quantization_config": {)" +
                       scheme + "}}"),
            16 * kLayer);
  EXPECT_THAT(Error(Config(32, R"("kv_cache_dtype": "fp8")")),
              HasSubstr("kv_cache_dtype (\"fp8\") may change the type"));
  EXPECT_EQ(TokenBytes(Config(32, R"("kv_cache_dtype": "auto")")), 32 * kLayer);
}

// Nemotron-3-Ultra: 12 of 108 layers have attention, and nothing else says how many there are.
TEST_F(ConfigTableTest, AListSaysTheNumberOfLayers) {
  std::vector<std::string> kinds(108, R"("mamba")");
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (i % 9 == 4) kinds[i] = R"("attention")";
    if (i % 9 == 5) kinds[i] = R"("moe")";
  }
  const std::string members =
      R"({"model_type": "nemotron_h", "num_attention_heads": 64, "num_key_value_heads": 2,
          "head_dim": 128, "dtype": "bfloat16", "mamba_num_heads": 128, "ssm_state_size": 128,
          "conv_kernel": 4, "chunk_size": 128, "mtp_layers_block_type": ["attention", "moe"],
          "layers_block_type": [)" +
      absl::StrJoin(kinds, ", ") + "]";
  EXPECT_EQ(TokenBytes(members + "}"), 12'288u);
  EXPECT_EQ(TokenBytes(members + R"(, "num_hidden_layers": 52})"), 12'288u)
      << "the class ignores num_hidden_layers";
}

TEST_F(ConfigTableTest, NoHeadsAndNoWidthAreRefused) {
  const auto with = [](const std::string& heads) {
    return R"({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 512,
               "dtype": "bf16", )" +
           heads + "}";
  };
  EXPECT_EQ(Error(with(R"("num_key_value_heads": 0)")),
            path_ + ": num_key_value_heads must be 1 to 1024, not 0; give --kv-heads");
  EXPECT_THAT(Error(with(R"("head_dim": 0)")), HasSubstr("head_dim must be 1 to 4096, not 0"));
  EXPECT_THAT(Error(with(R"("num_key_value_heads": [4, 2])")), HasSubstr("num_key_value_heads"));
}

// Gemma 4: 50 layers with a window have 16 KV heads of 256, and 10 without have 4 of 512.
TEST_F(ConfigTableTest, HeadsOfTwoWidthsAreCounted) {
  const auto gemma = [](const std::string& more) {
    return R"({"model_type": "gemma4", "dtype": "bfloat16", "text_config": {
        "model_type": "gemma4_text", "num_hidden_layers": 60, "num_attention_heads": 32,
        "num_key_value_heads": 16, "head_dim": 256, "sliding_window": 1024, "hidden_size": 5376,
        "use_bidirectional_attention": "vision", "layer_types": )" +
           ListOf(60, 6, R"("full_attention")", R"("sliding_attention")") + more + "}}";
  };
  const std::string json = gemma(R"(, "global_head_dim": 512, "num_global_key_value_heads": 4,
                                      "attention_k_eq_v": true)");
  constexpr uint64_t kWindowed = uint64_t{50} * 2 * 16 * 256 * 2;
  EXPECT_EQ(TokenBytes(json), kWindowed + uint64_t{10} * 2 * 4 * 512 * 2);
  EXPECT_EQ(RequestBytes(json, 100'000),
            kWindowed * 1024 + uint64_t{10} * 2 * 4 * 512 * 2 * 100'000);
  // The width is the class's own, and the number of heads counts only where keys are the values.
  EXPECT_EQ(TokenBytes(gemma(R"(, "num_global_key_value_heads": 4)")),
            kWindowed + uint64_t{10} * 2 * 16 * 512 * 2);
  const std::string error = Error(json, {.head_dim = 256});
  EXPECT_THAT(error, HasSubstr("its layers differ in their heads"));
  const ModelSize flops = *SizeOf({.config = path_, .tokens = 10, .prefill_rate = 100});
  EXPECT_TRUE(flops.recompute.has_value());
  EXPECT_THAT(SizeOf({.config = path_, .given = {.parameters = 1000}, .tokens = 10, .flops = 1e12})
                  .status()
                  .message(),
              HasSubstr("give --prefill-rate"));
}

// MiMo-V2-Flash: values are narrower than keys, and layers with a window have more KV heads.
TEST_F(ConfigTableTest, ValuesMayBeNarrowerThanKeys) {
  const std::string mimo = R"({"model_type": "mimo_v2_flash", "num_hidden_layers": 48,
      "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128,
      "swa_num_attention_heads": 64, "swa_num_key_value_heads": 8, "swa_head_dim": 192,
      "swa_v_head_dim": 128, "sliding_window": 128, "sliding_window_size": 128,
      "attention_chunk_size": 128, "add_swa_attention_sink_bias": true, "hidden_size": 4096,
      "attention_value_scale": 0.707, "torch_dtype": "bfloat16", "hybrid_layer_pattern": )" +
                           ListOf(48, 6, "0", "1") + "}";
  constexpr uint64_t kFull = uint64_t{8} * 4 * (192 + 128) * 2;
  constexpr uint64_t kWindowed = uint64_t{40} * 8 * (192 + 128) * 2;
  EXPECT_EQ(TokenBytes(mimo), kFull + kWindowed);
  EXPECT_EQ(RequestBytes(mimo, 1000), kFull * 1000 + kWindowed * 128);
}

TEST_F(ConfigTableTest, NestedTextModelsAreFound) {
  const std::string text = Config(28, R"("model_type": "qwen2")");
  EXPECT_EQ(TokenBytes(R"({"model_type": "qwen2_5_omni", "enable_audio_output": true,
      "talker_config": {"num_hidden_layers": 24}, "thinker_config": {"audio_config":
      {"encoder_layers": 32}, "text_config": )" +
                       text + "}}"),
            28 * kLayer);
  for (const char* name :
       {"text_config", "llm_config", "language_config", "language_model_config"}) {
    EXPECT_EQ(TokenBytes(absl::StrCat("{\"", name, "\": ", text,
                                      R"(, "vision_config": {"num_hidden_layers": 27}})")),
              28 * kLayer)
        << name;
  }
}

// The text models of multimodal ones are published without the defaults of their classes.
TEST_F(ConfigTableTest, WhatAClassHasByDefaultIsNotAbsent) {
  EXPECT_EQ(TokenBytes(R"({"model_type": "llava", "torch_dtype": "float16", "text_config": {
      "_name_or_path": "vicuna", "model_type": "llama", "max_position_embeddings": 4096,
      "vocab_size": 32064}})"),
            524'288u);
  EXPECT_EQ(TokenBytes(R"({"model_type": "llava_next", "text_config": {"model_type": "mistral",
      "intermediate_size": 14336, "num_key_value_heads": 8, "sliding_window": null,
      "torch_dtype": "bfloat16"}})"),
            131'072u);
  EXPECT_EQ(TokenBytes(R"({"model_type": "paligemma", "text_config": {"model_type": "gemma",
      "hidden_size": 2048, "num_attention_heads": 8, "num_hidden_layers": 18,
      "num_key_value_heads": 1, "torch_dtype": "float32"}})"),
            18u * 2 * 256 * 4);
  const std::string qwen = Config(64, R"("model_type": "qwen2", "sliding_window": 131072)");
  EXPECT_EQ(Size(qwen)->facts.window, 0u) << "without use_sliding_window there is no window";
}

TEST_F(ConfigTableTest, ModelsWithoutKvSaySo) {
  for (const std::string type : {"mamba", "mamba2", "falcon_mamba", "rwkv6"}) {
    EXPECT_THAT(Error(R"({"hidden_size": 768, "num_hidden_layers": 24, "state_size": 16,
                          "torch_dtype": "float32", "model_type": ")" +
                      type + "\"}"),
                HasSubstr(type + "' keeps a state of a fixed size and no keys and values: there "
                                 "is no KV"));
  }
  EXPECT_THAT(Error(Config(2, R"("layer_types": ["mamba", "linear_attention"])")),
              HasSubstr("no layer has attention: there is no KV"));
  EXPECT_THAT(Error(Config(12, R"("model_type": "bert")")), HasSubstr("there is no KV"));
  EXPECT_THAT(Error(Config(12, R"("is_encoder_decoder": true)")),
              HasSubstr("is_encoder_decoder true shows an encoder"));
  EXPECT_THAT(Error(Config(12, R"("use_bidirectional_attention": true)")),
              HasSubstr("use_bidirectional_attention (true)"));
}

// A member that no reader knows is refused where its name suggests that it decides what is kept.
TEST_F(ConfigTableTest, WhatMayDecideWhatIsKeptIsRefusedByName) {
  for (const std::string name : {"compress_ratios",
                                 "kv_compression_ratio",
                                 "attention_window",
                                 "window_size",
                                 "global_attn_every_n_layers",
                                 "attention_types",
                                 "local_attention",
                                 "num_kv_heads_per_block",
                                 "cross_attention_layers",
                                 "yoco_cross_layers",
                                 "sparse_config",
                                 "moba_topk",
                                 "nsa_block",
                                 "num_loops",
                                 "H_cycles",
                                 "total_ut_steps",
                                 "kv_cache_budget",
                                 "attention_sink_size",
                                 "num_memory_slots",
                                 "decoder_layers",
                                 "encoder_layers",
                                 "per_layer_config",
                                 "KVShareMap",
                                 "latent_width",
                                 "index_topk_freq",
                                 "cca_time0",
                                 "skip_layers",
                                 "retained_tokens",
                                 "mamba_d_state",
                                 "ssm_cfg",
                                 "linear_num_value_heads",
                                 "conv_L_cache",
                                 "lightning_nope"}) {
    for (const std::string value : {"4", "[0, 1]", R"({"a": 1})", "true", R"("yes")"}) {
      EXPECT_THAT(Error(Config(32, "\"" + name + "\": " + value)), HasSubstr(name + " (")) << value;
    }
    for (const std::string value : {"null", "false"}) {
      EXPECT_EQ(TokenBytes(Config(32, "\"" + name + "\": " + value)), 32 * kLayer) << name;
    }
  }
  EXPECT_THAT(Error(R"({"compress_rates": 4, "text_config": )" + Config(32, "") + "}"),
              HasSubstr("compress_rates (4) may decide what is kept"));
  EXPECT_THAT(Error(R"({"d_model": 4096, "n_heads": 32, "n_layers": 32, "dtype": "bf16",
                        "attn_config": {"kv_n_heads": 8, "sliding_window_size": 512}})"),
              HasSubstr("attn_config has sliding_window_size (512), which may decide"));
}

TEST_F(ConfigTableTest, WhatChangesNoByteDoesNotMatter) {
  for (const std::string name : {"attention_bias",
                                 "attention_dropout",
                                 "attn_logit_softcapping",
                                 "attention_multiplier",
                                 "layer_norm_eps",
                                 "use_qk_norm",
                                 "qk_layernorm",
                                 "num_nextn_predict_layers",
                                 "mtp_layers",
                                 "moe_layer_freq",
                                 "mlp_only_layers",
                                 "decoder_sparse_step",
                                 "n_shared_experts",
                                 "shared_expert_intermediate_size",
                                 "num_local_experts",
                                 "first_k_dense_replace",
                                 "use_cache",
                                 "cache_implementation",
                                 "attn_output_gate",
                                 "query_pre_attn_scalar",
                                 "rope_local_base_freq",
                                 "layer_rope_theta",
                                 "chunk_size_feed_forward",
                                 "lm_head_bias",
                                 "vision_feature_layer",
                                 "image_token_index",
                                 "decoder_start_token_id",
                                 "pruned_heads",
                                 "encoder_no_repeat_ngram_size",
                                 "output_attentions",
                                 "output_hidden_states",
                                 "scale_attn_by_inverse_layer_idx",
                                 "parallel_attn",
                                 "hidden_size_per_layer_input",
                                 "activation_sparsity_pattern",
                                 "interleave_moe_layer_step",
                                 "tie_word_embeddings",
                                 "_attn_implementation_autoset",
                                 "apply_query_key_layer_scaling",
                                 "top_k",
                                 "swiglu_limit"}) {
    EXPECT_EQ(TokenBytes(Config(32, "\"" + name + "\": 3")), 32 * kLayer) << name;
  }
}

TEST(ConfigRoles, EachHasItsMembers) {
  EXPECT_EQ(RoleOf("num_hidden_layers"), MemberRole::kCounted);
  EXPECT_EQ(RoleOf("mamba_d_conv"), MemberRole::kOfLayers);
  EXPECT_EQ(RoleOf("kv_cache_dtype"), MemberRole::kOfType);
  EXPECT_EQ(RoleOf("attention_dropout"), MemberRole::kIgnored);
  EXPECT_EQ(RoleOf("vocab_size"), MemberRole::kIgnored);
  EXPECT_EQ(RoleOf("Attention_Plan"), MemberRole::kSuspect);
  EXPECT_EQ(RoleInAttention("sliding_window"), MemberRole::kSuspect)
      << "no reader looks for it in attn_config";
}

}  // namespace
}  // namespace kvtier::cli
