// Reads the members that decide the KV of well-known models, as their config.json is published.
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/config_members.h"
#include "cli/model_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier::cli {
namespace {

using ::testing::HasSubstr;

ModelFacts Facts(const std::string& json, const ModelFacts& given = {}) {
  const absl::StatusOr<ModelFacts> facts = FactsFromConfig(json, given);
  EXPECT_TRUE(facts.ok()) << facts.status() << "\n" << json;
  return facts.value_or(ModelFacts());
}

std::string Error(const std::string& json, const ModelFacts& given = {}) {
  const absl::StatusOr<ModelFacts> facts = FactsFromConfig(json, given);
  EXPECT_FALSE(facts.ok()) << json;
  return std::string(facts.status().message());
}

// Returns a config of `layers` layers and 8 KV heads, with more members.
std::string Config(uint64_t layers, const std::string& more) {
  return absl::StrCat(R"({"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
                          "torch_dtype": "bfloat16", "num_hidden_layers": )",
                      layers, ", ", more, "}");
}

// Returns a list of `count` texts, in which every n-th is `nth` and each other one is `other`.
std::string ListOf(uint64_t count, uint64_t n, const std::string& nth, const std::string& other) {
  std::string list;
  for (uint64_t i = 1; i <= count; ++i) {
    absl::StrAppend(&list, i == 1 ? "[" : ", ", i % n == 0 ? nth : other);
  }
  return list + "]";
}

constexpr char kGemma27b[] = R"({"model_type": "gemma3", "torch_dtype": "bfloat16",
  "text_config": {"head_dim": 128, "hidden_size": 5376, "model_type": "gemma3_text",
    "num_attention_heads": 32, "num_hidden_layers": 62, "num_key_value_heads": 16,
    "sliding_window": 1024},
  "vision_config": {"num_hidden_layers": 27, "num_attention_heads": 16}})";

TEST(PublishedConfigs, EachSixthLayerOfGemma3HasNoWindow) {
  const ModelFacts facts = Facts(kGemma27b);
  EXPECT_EQ(facts.layers, 62u);
  EXPECT_EQ(facts.window, 1024u);
  EXPECT_EQ(facts.window_layers, 52u);
  EXPECT_EQ(facts.kv_heads, 16u);
  EXPECT_EQ(facts.head_dim, 128u);
}

// The config says neither the heads nor their width, which are those of the class.
TEST(PublishedConfigs, ASmallGemma3HasTheHeadsOfItsClass) {
  const ModelFacts facts = Facts(R"({"model_type": "gemma3", "torch_dtype": "bfloat16",
    "text_config": {"hidden_size": 2560, "model_type": "gemma3_text", "num_hidden_layers": 34,
      "sliding_window": 1024}})");
  EXPECT_EQ(facts.layers, 34u);
  EXPECT_EQ(facts.window_layers, 29u);
  EXPECT_EQ(facts.heads, 8u);
  EXPECT_EQ(facts.kv_heads, 4u);
  EXPECT_EQ(facts.head_dim, 256u);
}

// A part lacks what its class has by default, and the defaults of this one are not known.
TEST(PublishedConfigs, APartOfAnUnknownClassLacksItsHeads) {
  const std::string part = R"({"text_config": {"model_type": "qwen3_later", "hidden_size": 2560,
    "num_attention_heads": 20, "num_hidden_layers": 34}})";
  EXPECT_EQ(Error(part), "there is no num_key_value_heads; give --kv-heads");
  EXPECT_EQ(Error(part, {.kv_heads = 4}), "there is no head_dim; give --head-dim");
  EXPECT_EQ(Facts(part, {.kv_heads = 4, .head_dim = 256}).layers, 34u);
}

TEST(PublishedConfigs, ClassesHaveDefaultsOfTheirWindows) {
  const auto windows = [](const std::string& type) {
    return Facts(Config(60, R"("sliding_window": 4096, "model_type": ")" + type + "\""))
        .window_layers;
  };
  EXPECT_EQ(windows("gemma2"), 30u);
  EXPECT_EQ(windows("gemma3"), 50u);
  EXPECT_EQ(windows("gemma3_text"), 50u);
  EXPECT_EQ(windows("gemma3n_text"), 48u);
  EXPECT_EQ(windows("cohere2"), 45u);
  EXPECT_EQ(windows("mistral"), 60u);
  EXPECT_EQ(Facts(R"({"text_config": {"model_type": "gemma2", "num_hidden_layers": 26}})").window,
            4096u);
}

TEST(PublishedConfigs, SomeLayersOfHybridModelsHaveAttention) {
  const auto layers = [](uint64_t all, const std::string& more) {
    return Facts(Config(all, more)).layers;
  };
  const std::string linear = R"("linear_key_head_dim": 128, "linear_num_value_heads": 32, )";
  EXPECT_EQ(layers(48, linear + R"("model_type": "qwen3_next", "full_attention_interval": 4)"),
            12u);
  EXPECT_EQ(layers(48, linear + R"("layer_types": )" +
                           ListOf(48, 4, R"("full_attention")", R"("linear_attention")")),
            12u);
  const std::string mamba = R"("mamba_d_state": 16, "mamba_expand": 2, )";
  EXPECT_EQ(layers(32, mamba + R"("model_type": "jamba", "attn_layer_period": 8,
                                  "attn_layer_offset": 4)"),
            4u);
  EXPECT_EQ(layers(32, mamba + R"("model_type": "bamba", "attn_layer_indices": [9, 18, 27])"), 3u);
  EXPECT_EQ(layers(16, R"("model_type": "lfm2", "full_attn_idxs": [2, 5, 8, 10, 12, 14])"), 6u);
  EXPECT_EQ(layers(52, R"("model_type": "nemotron_h", "ssm_state_size": 128,
      "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-")"),
            4u);
  EXPECT_EQ(
      layers(80, R"("model_type": "minimax_m1", "attn_type_list": )" + ListOf(80, 8, "1", "0")),
      10u);
  EXPECT_EQ(layers(4, mamba + R"("layers_block_type": ["mamba", "attention", "moe", "mlp"])"), 1u);
  EXPECT_EQ(layers(27, R"("model_type": "kimi_linear", "linear_attn_config": {"kda_layers": [1, 2],
      "full_attn_layers": [4, 8, 12, 16, 20, 24, 27]})"),
            7u);
  EXPECT_EQ(layers(32, mamba + R"("model_type": "falcon_h1")"), 32u);
  EXPECT_EQ(layers(3, mamba + R"("model_type": "zamba2",
      "layers_block_type": ["mamba", "hybrid", "mamba"])"),
            1u);
}

TEST(PublishedConfigs, TheAttentionOfRecurrentGemmaHasAWindow) {
  const ModelFacts facts = Facts(Config(26, R"("model_type": "recurrent_gemma",
      "attention_window_size": 2048, "block_types": ["recurrent", "recurrent", "attention"])"));
  EXPECT_EQ(facts.layers, 8u);
  EXPECT_EQ(facts.window_layers, 8u);
  EXPECT_EQ(facts.window, 2048u);
}

TEST(PublishedConfigs, LayersThatShareKeysAndValuesKeepNone) {
  const ModelFacts facts = Facts(Config(
      35, R"("model_type": "gemma3n_text", "sliding_window": 512, "num_kv_shared_layers": 15)"));
  EXPECT_EQ(facts.layers, 20u);
  EXPECT_EQ(facts.window_layers, 16u);
}

TEST(PublishedConfigs, HybridModelsWhoseAttentionIsNotSaidNeedTheNumberOfLayers) {
  for (const std::string member :
       {R"("mamba_d_conv": 4)", R"("ssm_cfg": {})", R"("linear_attn_config": {"kda_layers": [1]})",
        R"("attn_layer_offset": 4)", R"("hybrid_layer_pattern": [0, 1])",
        R"("model_type": "zamba", "attn_layer_period": 6, "attn_layer_offset": 4)"}) {
    const std::string config = Config(36, member);
    EXPECT_THAT(Error(config),
                HasSubstr("shows layers of several kinds, and which of them keep what "
                          "cannot be told; give --layers"))
        << config;
    EXPECT_EQ(Facts(config, {.layers = 7}).layers, 7u);
  }
  EXPECT_EQ(Facts(Config(36, R"("mamba_enabled": false, "ssm_cfg": null)")).layers, 36u);
  const std::string windowed = Config(36, R"("mamba_d_conv": 4, "sliding_window": 1024)");
  EXPECT_EQ(Error(windowed, {.layers = 7}),
            "which of the layers have the sliding_window of 1024 tokens cannot be told; give "
            "--window-layers");
  EXPECT_EQ(Facts(windowed, {.layers = 7, .window_layers = 6}).window_layers, 6u);
}

TEST(PublishedConfigs, ListsOfLayersMustBeWholeAndKnown) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"("layer_types": ["full_attention", "full_attention"])",
       "layer_types has 2 entries and must have num_hidden_layers, 3; give --layers"},
      {R"("layer_types": "full_attention")",
       "layer_types must be a list of texts with one entry or more, not \"full_attention\""},
      {R"("layer_types": [])",
       "layer_types must be a list of texts with one entry or more, not []"},
      {R"("layer_types": [1, 2, 3])", "layer_types must be a list of texts, not 1"},
      {R"("layer_types": ["full_attention", "odd_attention", "mamba"])",
       "layer_types has 'odd_attention', a kind that is not known; must be full_attention,"},
      {R"("layer_types": ["mamba", "mamba", "sliding_attention"])",
       "there is no sliding_window; give --window"},
      {R"("layers_block_type": ["mamba", "hybrid", "mamba"])", "layers_block_type has 'hybrid'"},
      {R"("hybrid_override_pattern": "M*")",
       "hybrid_override_pattern has 2 entries and must have num_hidden_layers, 3"},
      {R"("hybrid_override_pattern": "M*X")", "hybrid_override_pattern has 'X'"},
      {R"("attn_layer_indices": [1, 3])",
       "attn_layer_indices has 3, and must be 0 to 2, because num_hidden_layers is 3"},
      {R"("attn_layer_indices": ["1"])",
       "each entry of attn_layer_indices must be a whole number up to 1000000000, not \"1\""},
      {R"("attn_type_list": [0, 1, 2])", "attn_type_list has 2, a kind that is not known"},
      {R"("full_attention_interval": 0)", "full_attention_interval must be a period from 1"},
      {R"("attn_layer_period": 2, "attn_layer_offset": 2)",
       "attn_layer_period and attn_layer_offset must be a period from 1 and an offset below it, "
       "not 2 and 2"},
      {R"("sliding_window": 8, "sliding_window_pattern": "LLG")",
       "sliding_window_pattern must be a whole number up to 1000000000, not \"LLG\"; "
       "--window-layers can stand for it"},
  };
  for (const auto& [member, error] : kCases) {
    EXPECT_THAT(Error(Config(3, member)), HasSubstr(error)) << member;
  }
}

TEST(PublishedConfigs, HeadsAreSaidInManyWays) {
  const std::string chatglm = R"({"model_type": "chatglm", "num_layers": 28,
    "num_attention_heads": 32, "kv_channels": 128, "hidden_size": 4096, "torch_dtype": "float16",
    "multi_query_group_num": 2, "multi_query_attention": )";
  EXPECT_EQ(Facts(chatglm + "true}").TokenBytes(), 28'672u);
  EXPECT_EQ(Facts(chatglm + "false}").kv_heads, 32u);
  const std::string mpt = R"({"d_model": 4096, "n_heads": 32, "n_layers": 32,
    "torch_dtype": "bfloat16", "attn_config": )";
  EXPECT_EQ(Facts(mpt + R"({"attn_type": "multihead_attention"}})").kv_heads, 32u);
  EXPECT_EQ(Facts(mpt + R"({"attn_type": "multiquery_attention"}})").kv_heads, 1u);
  const ModelFacts grouped =
      Facts(mpt + R"({"attn_type": "grouped_query_attention", "kv_n_heads": 8}})");
  EXPECT_EQ(grouped.kv_heads, 8u);
  EXPECT_EQ(grouped.head_dim, 128u);
  const std::string falcon_40b = R"("hidden_size": 8192, "num_attention_heads": 128,
    "num_hidden_layers": 60, "num_kv_heads": 8, "new_decoder_architecture": true,)";
  EXPECT_EQ(Facts("{" + falcon_40b + R"("model_type": "falcon"})").kv_heads, 8u);
  EXPECT_EQ(Facts("{" + falcon_40b + R"("multi_query": true})").kv_heads, 8u);
  const std::string old_falcon = R"({"model_type": "falcon", "hidden_size": 2048,
    "num_attention_heads": 32, "num_hidden_layers": 24)";
  EXPECT_EQ(Facts(old_falcon + R"(, "multi_query": false})").kv_heads, 32u);
  EXPECT_EQ(Facts(old_falcon + "}").kv_heads, 1u) << "the class has multi_query by default";
  const std::string bigcode = R"({"model_type": "gpt_bigcode", "n_embd": 6144, "n_head": 48,
    "n_layer": 40)";
  EXPECT_EQ(Facts(bigcode + "}").kv_heads, 1u);
  EXPECT_EQ(Facts(bigcode + R"(, "multi_query": true})").head_dim, 128u);
  EXPECT_EQ(Facts(bigcode + R"(, "multi_query": false})").kv_heads, 48u);
}

TEST(PublishedConfigs, OptionsFillWhatAConfigLacks) {
  const ModelFacts given = {.layers = 28, .heads = 32, .kv_heads = 2, .head_dim = 128};
  for (const std::string config :
       {R"({})", R"({"model_type": "chatglm", "num_layers": 28, "multi_query_attention": true})",
        R"({"num_hidden_layers": "x", "num_key_value_heads": [], "hidden_size": 7})",
        R"({"num_hidden_layers": 30, "layer_types": "mamba", "kv_lora_rank": 8})",
        R"({"text_config": {"model_type": "gemma", "head_dim": "wide"}})"}) {
    const ModelFacts facts = Facts(config, given);
    EXPECT_EQ(facts.kv_heads, 2u) << config;
    EXPECT_EQ(facts.head_dim, 128u) << config;
    EXPECT_EQ(facts.latent_dim, 0u) << config;
  }
  EXPECT_EQ(Facts("{}", {.layers = 2, .latent_dim = 576}).latent_dim, 576u);
  EXPECT_EQ(Facts("{}", {.layers = 2, .heads = 4, .head_dim = 8}).kv_heads, 4u);
}

TEST(PublishedConfigs, NumbersOfPythonAreTakenForNull) {
  EXPECT_EQ(Facts(Config(2, R"("limits": [0.0, Infinity], "a": -Infinity, "b": NaN)")).layers, 2u);
  EXPECT_EQ(WithoutPythonNumbers(R"({"a": [NaN,-Infinity, Infinity], "b": -1})"),
            R"({"a": [null,null, null], "b": -1})");
  constexpr char kTexts[] = R"({"NaN": "Infinity", "a\"NaN": "\\", "b": "-Infinity\\\" NaN"})";
  EXPECT_EQ(WithoutPythonNumbers(kTexts), kTexts);
  EXPECT_EQ(WithoutPythonNumbers("\"\\"), "\"\\") << "the text ends in an escape";
  EXPECT_THAT(Error(R"({"num_hidden_layers": Infinity})"), HasSubstr("no num_hidden_layers"));
}

}  // namespace
}  // namespace kvtier::cli
