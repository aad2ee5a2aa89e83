#include "cli/model_config.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier::cli {
namespace {

using ::testing::HasSubstr;

ModelFacts Facts(const std::string& json) {
  const absl::StatusOr<ModelFacts> facts = FactsFromConfig(json, {});
  EXPECT_TRUE(facts.ok()) << facts.status();
  return facts.value_or(ModelFacts());
}

TEST(ModelConfigTest, GroupedQueryAttention) {
  const ModelFacts facts = Facts(R"({"model_type": "llama", "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096,
    "torch_dtype": "bfloat16", "rope_scaling": null, "eos_token_id": [1, 2]})");
  EXPECT_EQ(facts.layers, 32u);
  EXPECT_EQ(facts.heads, 32u);
  EXPECT_EQ(facts.kv_heads, 8u);
  EXPECT_EQ(facts.head_dim, 128u);
  EXPECT_EQ(facts.TokenBytes(), 131'072u);
  EXPECT_TRUE(facts.Check().ok());
}

TEST(ModelConfigTest, AHeadMayBeWiderThanItsShareOfTheModel) {
  EXPECT_EQ(Facts(R"({"num_hidden_layers": 64, "num_attention_heads": 64, "head_dim": 128,
                      "num_key_value_heads": 8, "hidden_size": 5120, "dtype": "bfloat16"})")
                .TokenBytes(),
            262'144u);
}

TEST(ModelConfigTest, WithoutKvHeadsEachHeadHasItsOwn) {
  const ModelFacts facts = Facts(R"({"n_layer": 12, "n_head": 12, "n_embd": 768,
                                     "torch_dtype": "float32"})");
  EXPECT_EQ(facts.kv_heads, 12u);
  EXPECT_EQ(facts.TokenBytes(), 12u * 2 * 768 * 4);
}

TEST(ModelConfigTest, MultiQueryAttentionHasOneHead) {
  const std::string falcon = R"("num_hidden_layers": 32, "num_attention_heads": 71,
    "hidden_size": 4544, "multi_query": true, "torch_dtype": "bfloat16")";
  EXPECT_EQ(Facts("{" + falcon + ", \"num_kv_heads\": 71}").kv_heads, 1u);
  EXPECT_EQ(
      Facts("{" + falcon + R"(, "num_kv_heads": 8, "new_decoder_architecture": true})").kv_heads,
      8u);
}

TEST(ModelConfigTest, LatentAttentionKeepsOneVector) {
  const ModelFacts facts = Facts(R"({"num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128, "v_head_dim": 128, "hidden_size": 7168, "torch_dtype": "bfloat16"})");
  EXPECT_EQ(facts.latent_dim, 576u);
  EXPECT_EQ(facts.attention_width, 128u * 160);
  EXPECT_EQ(facts.TokenBytes(), 70'272u);
}

std::string Windowed(const std::string& more) {
  return R"({"num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 4,
             "head_dim": 64, "dtype": "bf16", )" +
         more + "}";
}

TEST(ModelConfigTest, WindowsAreSaidInSeveralWays) {
  const auto layers = [](const std::string& more) { return Facts(Windowed(more)).window_layers; };
  EXPECT_EQ(layers(R"("sliding_window": 4096)"), 6u) << "Mistral";
  EXPECT_EQ(layers(R"("sliding_window": null)"), 0u);
  EXPECT_EQ(layers(R"("sliding_window": 4096, "use_sliding_window": false)"), 0u) << "Qwen";
  EXPECT_EQ(layers(R"("sliding_window": 4096, "use_sliding_window": true, "max_window_layers": 4)"),
            2u);
  EXPECT_EQ(layers(R"("sliding_window": 4096, "sliding_window_pattern": 3)"), 4u) << "Gemma 3";
  EXPECT_EQ(layers(R"("sliding_window": 4096, "model_type": "gemma2")"), 3u);
  const ModelFacts facts = Facts(Windowed(R"("sliding_window": 128, "layer_types":
      ["sliding_attention", "full_attention", "sliding_attention", "linear_attention", "conv",
       "mamba"])"));
  EXPECT_EQ(facts.layers, 3u) << "a layer without attention keeps nothing that grows";
  EXPECT_EQ(facts.window_layers, 2u);
  EXPECT_EQ(facts.window, 128u);
}

TEST(ModelConfigTest, OfSeveralModelsTheTextModelCounts) {
  const ModelFacts facts = Facts(R"({"torch_dtype": "bfloat16", "text_config": {
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "hidden_size": 256},
    "vision_config": {"num_hidden_layers": 27}})");
  EXPECT_EQ(facts.layers, 2u);
  EXPECT_EQ(facts.dtype, "bfloat16");
}

TEST(ModelConfigTest, ErrorsNameTheMemberAndItsValue) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "not a JSON object"},
      {"[1]", "not a JSON object"},
      {"{\"num_hidden_layers\": 1", "not a JSON object"},
      {"{}", "there is no num_hidden_layers; give --layers"},
      {R"({"num_hidden_layers": "many"})",
       "num_hidden_layers must be a whole number up to 1000000000, not \"many\""},
      {R"({"num_hidden_layers": 1.5})", "num_hidden_layers must be a whole number up to"},
      {R"({"num_hidden_layers": -1})", "num_hidden_layers must be a whole number up to"},
      {R"({"num_hidden_layers": 1000000001})", "num_hidden_layers must be a whole number up to"},
      {R"({"num_hidden_layers": 1025})", "num_hidden_layers must be 1 to 1024, not 1025"},
      {R"({"num_hidden_layers": 0})", "num_hidden_layers must be 1 to 1024, not 0"},
      {R"({"num_hidden_layers": 2})", "there is no num_attention_heads; give --heads"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 3})",
       "there is no head_dim and no hidden_size; give --head-dim"},
      {R"({"num_hidden_layers": 2, "num_key_value_heads": 3, "hidden_size": 8})",
       "there is no head_dim and no number of heads; give --head-dim"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 3, "hidden_size": 100})",
       "hidden_size 100 is no multiple of num_attention_heads 3; give --head-dim"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 4, "kv_lora_rank": 5})",
       "there is no qk_rope_head_dim; give --latent"},
      {R"({"text_config": "none"})", "text_config must be an object, not \"none\""},
  };
  for (const auto& [json, error] : kCases) {
    const absl::StatusOr<ModelFacts> facts = FactsFromConfig(json, {});
    ASSERT_FALSE(facts.ok()) << json;
    EXPECT_THAT(facts.status().message(), HasSubstr(error)) << json;
  }
}

class ModelConfigFileTest : public ::testing::Test {
 protected:
  ModelConfigFileTest() { std::filesystem::create_directories(folder_); }
  ~ModelConfigFileTest() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& text) { std::ofstream(folder_ + "/config.json") << text; }

  const std::string folder_ = ::testing::TempDir() + "model_config_test";
};

TEST_F(ModelConfigFileTest, AFolderMeansItsConfig) {
  Write(R"({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 256})");
  EXPECT_EQ(FactsFromConfigFile(folder_, {})->name, folder_);
  EXPECT_EQ(FactsFromConfigFile(folder_ + "/config.json", {})->layers, 2u);
}

TEST_F(ModelConfigFileTest, ErrorsNameTheFile) {
  const auto error = [this] {
    return std::string(FactsFromConfigFile(folder_, {}).status().message());
  };
  EXPECT_EQ(error(),
            folder_ + "/config.json cannot be read, or is empty; name a model's config.json");
  Write("{}");
  EXPECT_EQ(error(), folder_ + "/config.json: there is no num_hidden_layers; give --layers");
  Write(std::string(kMaxConfigBytes + 1, ' '));
  EXPECT_THAT(error(), HasSubstr("more than 4194304 bytes"));
}

}  // namespace
}  // namespace kvtier::cli
