// Compares `kvtier size` with published examples. Published numbers are rounded; those of the tests
// are exact.
#include "cli/size.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/command.h"
#include "cli/model_presets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier::cli {
namespace {

using ::testing::HasSubstr;

Outcome Kvtier(const std::string& line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  return RunCommand(words);
}

// Returns the answer to valid options.
ModelSize Size(const std::map<std::string, std::string>& options) {
  std::map<std::string, std::vector<std::string>> given;
  for (const auto& [name, value] : options) given[name] = {value};
  const absl::StatusOr<SizeQuestion> question = SizeQuestionFrom(given);
  EXPECT_TRUE(question.ok()) << question.status();
  const absl::StatusOr<ModelSize> size = SizeOf(*question);
  EXPECT_TRUE(size.ok()) << size.status();
  return size.value_or(ModelSize());
}

// Returns the number rounded to `digits` significant digits.
double Rounded(double number, int digits) {
  const double unit = std::pow(10, std::floor(std::log10(number)) - digits + 1);
  return std::round(number / unit) * unit;
}

// The source says "0.5 MB a token, 25 GB at 50,000 tokens", and rounded the token first.
TEST(PublishedSizes, ThirtyTwoLayersOf4096NumbersInFp16) {
  const ModelSize size = Size({{"--layers", "32"},
                               {"--heads", "32"},
                               {"--kv-heads", "32"},
                               {"--head-dim", "128"},
                               {"--dtype", "fp16"},
                               {"--tokens", "50000"}});
  EXPECT_EQ(size.facts.AttentionName(), "multi-head");
  EXPECT_EQ(size.token_bytes, 524'288u);
  EXPECT_EQ(size.request_bytes, 26'214'400'000u);
  const double printed = Rounded(static_cast<double>(size.token_bytes), 1);
  EXPECT_EQ(printed, 0.5e6);
  EXPECT_EQ(printed * 50'000, 25e9);
  EXPECT_NE(Rounded(static_cast<double>(size.request_bytes), 2), 25e9);
}

// The source says "20 GB for 8 requests, 40 for 16", and means GiB.
TEST(PublishedSizes, EightyLayersOf8HeadsInBf16) {
  std::map<std::string, std::string> options = {
      {"--model", "llama-3.1-70b"}, {"--tokens", "8192"}, {"--requests", "8"}};
  ModelSize size = Size(options);
  EXPECT_EQ(size.facts.AttentionName(), "grouped-query");
  EXPECT_EQ(size.request_bytes, 2'684'354'560u);
  EXPECT_EQ(size.total_bytes, uint64_t{20} << 30);
  options["--requests"] = "16";
  size = Size(options);
  EXPECT_EQ(size.total_bytes, uint64_t{40} << 30);
  EXPECT_NE(Rounded(static_cast<double>(size.total_bytes), 2), 40e9);
}

// The source says "2.5 MB a token, 330 GB", and means MiB by the former.
TEST(PublishedSizes, EightyLayersOf64HeadsInFp16) {
  const ModelSize size = Size({{"--layers", "80"},
                               {"--heads", "64"},
                               {"--kv-heads", "64"},
                               {"--head-dim", "128"},
                               {"--dtype", "fp16"},
                               {"--tokens", "131072"}});
  EXPECT_EQ(size.token_bytes, 2'621'440u);
  EXPECT_EQ(size.request_bytes, 343'597'383'680u);
  const double mebibytes = static_cast<double>(size.token_bytes) / (1 << 20);
  EXPECT_EQ(mebibytes, 2.5);
  EXPECT_EQ(Rounded(mebibytes * 1e6 * 131'072, 2), 330e9);
  EXPECT_EQ(Rounded(static_cast<double>(size.request_bytes), 2), 340e9);
}

TEST(SizeTest, EachKindOfAttentionHasItsBytes) {
  EXPECT_EQ(Size({{"--model", "llama-2-7b"}}).token_bytes, 524'288u);
  EXPECT_EQ(Size({{"--model", "llama-3.1-8b"}}).token_bytes, 131'072u);
  EXPECT_EQ(Size({{"--model", "falcon-7b"}}).token_bytes, 8'192u);
  EXPECT_EQ(Size({{"--model", "falcon-7b"}}).facts.AttentionName(), "multi-query");
  // A token has 61 layers of 576 numbers of 2 bytes.
  EXPECT_EQ(Size({{"--model", "deepseek-v3"}}).token_bytes, 70'272u);
  EXPECT_EQ(Size({{"--model", "deepseek-v3"}}).facts.AttentionName(), "multi-head latent");
  EXPECT_EQ(Size({{"--model", "llama-3.1-8b"}, {"--dtype", "fp8"}}).token_bytes, 65'536u);
  EXPECT_EQ(Size({{"--model", "llama-3.1-8b"}, {"--dtype", "int4"}}).token_bytes, 32'768u);
  EXPECT_EQ(Size({{"--model", "llama-3.1-8b"}, {"--dtype", "float32"}}).token_bytes, 262'144u);
}

TEST(SizeTest, FactsThatAreGivenTakeThePlaceOfAPresets) {
  const ModelSize size =
      Size({{"--model", "deepseek-v3"}, {"--kv-heads", "128"}, {"--head-dim", "128"}});
  EXPECT_EQ(size.facts.AttentionName(), "multi-head");
  EXPECT_EQ(size.token_bytes, 61u * 2 * 128 * 128 * 2);
}

TEST(SizeTest, ALayerWithAWindowKeepsTheLastTokensOnly) {
  const std::map<std::string, std::string> facts = {
      {"--layers", "36"},        {"--kv-heads", "8"}, {"--head-dim", "64"}, {"--window", "128"},
      {"--window-layers", "18"}, {"--dtype", "bf16"}, {"--host", "1GiB"}};
  const auto bytes_of = [&facts](uint64_t tokens) {
    std::map<std::string, std::string> options = facts;
    options["--tokens"] = std::to_string(tokens);
    return Size(options).request_bytes;
  };
  constexpr uint64_t kLayer = uint64_t{2} * 8 * 64 * 2;
  EXPECT_EQ(bytes_of(1), 36 * kLayer);
  EXPECT_EQ(bytes_of(128), kLayer * 128 * 36);
  EXPECT_EQ(bytes_of(129), kLayer * 128 * 36 + kLayer * 18);
  EXPECT_EQ(bytes_of(10'000), kLayer * 10'000 * 18 + kLayer * 128 * 18);
  const uint64_t fits = Size(facts).tiers.at(0).tokens;
  EXPECT_LE(bytes_of(fits), uint64_t{1} << 30);
  EXPECT_GT(bytes_of(fits + 1), uint64_t{1} << 30);
}

TEST(SizeTest, AContextOfWindowsAloneHasNoEnd) {
  const ModelSize size = Size({{"--layers", "2"},
                               {"--kv-heads", "1"},
                               {"--head-dim", "64"},
                               {"--window", "100"},
                               {"--window-layers", "2"},
                               {"--dtype", "bf16"},
                               {"--gpu", "1MiB"}});
  EXPECT_EQ(size.tiers.at(0).tokens, kMaxContextTokens);
  EXPECT_THAT(SizeTable(size), HasSubstr(">= 100,000,000"));
}

TEST(SizeTest, TiersHoldTokensAndRequests) {
  const ModelSize size = Size({{"--model", "llama-3.1-70b"},
                               {"--tokens", "8192"},
                               {"--gpu", "20GiB"},
                               {"--host", "100GiB"},
                               {"--disk", "1TiB"}});
  ASSERT_EQ(size.tiers.size(), 3u);
  EXPECT_EQ(size.tiers[0].name, "gpu");
  EXPECT_EQ(size.tiers[0].requests, 8u);
  EXPECT_EQ(size.tiers[0].tokens, 65'536u);
  EXPECT_EQ(size.tiers[1].requests, 40u);
  EXPECT_EQ(size.tiers[2].requests, 409u);
  EXPECT_EQ(size.tiers[2].tokens, (uint64_t{1} << 40) / 327'680);
}

TEST(SizeTest, FetchingBeatsRecomputingFromABandwidthOn) {
  const ModelSize size =
      Size({{"--model", "llama-3.1-8b"}, {"--tokens", "10000"}, {"--prefill-rate", "20000"}});
  ASSERT_TRUE(size.recompute.has_value());
  EXPECT_DOUBLE_EQ(size.recompute->seconds, 0.5);
  EXPECT_DOUBLE_EQ(size.recompute->bytes_per_second, 131'072.0 * 20'000);
  EXPECT_FALSE(Size({{"--model", "llama-3.1-8b"}}).recompute.has_value());
}

// Attention's part of the work grows with the square of the context.
TEST(SizeTest, OperationsAreThoseOfParametersAndOfPairsOfTokens) {
  const ModelFacts facts = *FindPreset("llama-3.1-8b");
  const double one = *facts.PrefillOperations(1);
  EXPECT_DOUBLE_EQ(one, 2 * 8.03e9 + 4.0 * 32 * 128 * 32);
  const double many = *facts.PrefillOperations(100'000);
  EXPECT_DOUBLE_EQ(many, 2 * 8.03e9 * 1e5 + 4.0 * 32 * 128 * 32 * (1e5 * (1e5 + 1) / 2));
  ModelFacts windowed = facts;
  windowed.window = 1000;
  windowed.window_layers = windowed.layers;
  const double pairs = 1000 * 1001.0 / 2 + 99'000 * 1000.0;
  EXPECT_DOUBLE_EQ(*windowed.PrefillOperations(100'000),
                   2 * 8.03e9 * 1e5 + 4.0 * 32 * 128 * 32 * pairs);
  windowed.parameters = 0;
  EXPECT_EQ(windowed.PrefillOperations(1), std::nullopt);
}

TEST(SizeTest, WithoutKvHeadsEachHeadHasItsOwn) {
  const ModelSize size =
      Size({{"--layers", "32"}, {"--heads", "32"}, {"--head-dim", "128"}, {"--dtype", "fp16"}});
  EXPECT_EQ(size.facts.AttentionName(), "multi-head");
  EXPECT_EQ(size.token_bytes, 524'288u);
}

TEST(SizeTest, AWindowIsThatOfAllLayersUnlessSomethingSaysOfHowMany) {
  const auto layers = [](const std::map<std::string, std::string>& options) {
    return Size(options).facts.window_layers;
  };
  EXPECT_EQ(layers({{"--model", "mistral-7b-v0.3"}, {"--window", "4096"}}), 32u);
  EXPECT_EQ(layers({{"--model", "mistral-7b-v0.3"}, {"--window", "4096"}, {"--layers", "8"}}), 8u);
  EXPECT_EQ(layers({{"--model", "gemma-3-27b"}, {"--window", "2048"}}), 52u);
  EXPECT_EQ(layers({{"--model", "gemma-3-27b"}, {"--window-layers", "10"}}), 10u);
  EXPECT_EQ(layers({{"--model", "gemma-3-27b"}, {"--layers", "6"}, {"--window-layers", "5"}}), 5u);
}

// Beside a latent, the heads say only how much work attention is.
TEST(SizeTest, ALatentMayHaveHeadsForTheWorkOfAttention) {
  const std::string line = "size --layers 61 --latent 576 --dtype bf16 --heads 128 --head-dim 160 ";
  EXPECT_EQ(Kvtier(line + "--parameters 37e9 --flops 4e14").code, ExitCode::kOk);
  EXPECT_EQ(Kvtier(line).code, ExitCode::kUsage);
}

TEST(SizeTest, RatesAtTheBoundsHaveATimeAndABandwidth) {
  const std::string model = "size --layers 1024 --heads 1024 --head-dim 4096 --dtype fp32 ";
  EXPECT_THAT(Kvtier(model + "--tokens 100000000 --prefill-rate 1e8").out,
              HasSubstr("takes 1.00 s, above 2.98 EiB/s"));
  EXPECT_THAT(Kvtier(model + "--tokens 1 --prefill-rate 1").out,
              HasSubstr("takes 1.00 s, above 32.0 GiB/s"));
  EXPECT_THAT(Kvtier(model + "--tokens 100000000 --parameters 1e15 --flops 1e9").out,
              HasSubstr(" h, above "));
  EXPECT_THAT(Kvtier("size --layers 1 --latent 4096 --heads 1 --head-dim 1 --dtype fp32 --tokens 1 "
                     "--parameters 1 --flops 1e20")
                  .out,
              HasSubstr("above 8.67 EiB/s"));
  EXPECT_THAT(Kvtier("size --layers 1 --heads 1 --head-dim 1 --window 1 --dtype int4 "
                     "--tokens 100000000 --prefill-rate 1")
                  .out,
              HasSubstr("above 1 B/s"));
}

TEST(SizeTest, HeadsBesideALatentHaveBounds) {
  const ModelFacts facts{.layers = 2, .heads = 1024, .latent_dim = 576, .dtype = "bf16"};
  EXPECT_TRUE(facts.Check().ok());
  ModelFacts wrong = facts;
  wrong.heads = 1025;
  EXPECT_THAT(wrong.Check().message(), HasSubstr("up to 1024, not 1025; give --heads"));
  wrong = facts;
  wrong.attention_width = 1024 * 4096 + 1;
  EXPECT_THAT(wrong.Check().message(), HasSubstr("4194304 numbers at most, not 4194305"));
}

class SizeOfAConfigTest : public ::testing::Test {
 protected:
  ~SizeOfAConfigTest() override { std::filesystem::remove(path_); }
  // Returns what `kvtier size` says of a config.json of this text.
  Outcome Ask(const std::string& json, const std::string& options) {
    std::ofstream(path_) << json;
    return Kvtier(absl::StrCat("size --config ", path_, " ", options));
  }

  const std::string path_ =
      absl::StrCat(::testing::TempDir(),
                   ::testing::UnitTest::GetInstance()->current_test_info()->name(), ".json");
};

TEST_F(SizeOfAConfigTest, OptionsFillWhatItLacks) {
  const std::string options = "--layers 28 --heads 32 --kv-heads 2 --head-dim 128 --dtype fp16";
  for (const std::string json :
       {"{}", R"({"model_type": "chatglm", "num_layers": 28, "multi_query_attention": true})"}) {
    const Outcome outcome = Ask(json, options);
    EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("28 layers, 2 KV heads of 128, fp16; grouped-query"));
    EXPECT_THAT(outcome.out, HasSubstr("28,672"));
  }
}

TEST_F(SizeOfAConfigTest, OptionsReplaceWhatItHas) {
  const std::string json = R"({"num_hidden_layers": 4, "num_attention_heads": 8, "head_dim": 16,
    "num_key_value_heads": 2, "sliding_window": 64, "dtype": "bfloat16"})";
  EXPECT_THAT(Ask(json, "").out,
              HasSubstr("4 layers, 2 KV heads of 16, bfloat16, a window of 64 tokens in 4 of"));
  EXPECT_THAT(Ask(json, "--layers 6 --kv-heads 4 --head-dim 8 --window 32 --dtype fp8").out,
              HasSubstr("6 layers, 4 KV heads of 8, fp8, a window of 32 tokens in 6 of"));
  EXPECT_THAT(Ask(json, "--latent 576").out, HasSubstr("4 layers, a latent vector of 576"));
}

TEST_F(SizeOfAConfigTest, WhatIsMissingHasAnOption) {
  const std::string json = R"({"num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 8)";
  EXPECT_THAT(Ask(json + "}", "").err, HasSubstr("int4, not ''; give --dtype"));
  EXPECT_THAT(Ask(json + R"(, "dtype": "bf16"})", "--parameters 1e9 --flops 4e14").err,
              HasSubstr("--flops needs --heads and --head-dim"));
  EXPECT_THAT(Ask(json + R"(, "mamba_d_conv": 4, "dtype": "bf16"})", "").err,
              HasSubstr("; give --layers, the number of layers with attention"));
}

TEST(SizeTest, PresetsAreWholeAndInOrder) {
  std::string before;
  for (const ModelFacts& facts : ModelPresets()) {
    EXPECT_TRUE(facts.Check().ok()) << facts.name << ": " << facts.Check();
    EXPECT_GT(facts.parameters, 0u) << facts.name;
    EXPECT_NE(facts.AttentionName(), "") << facts.name;
    EXPECT_LT(before, facts.name);
    before = facts.name;
  }
}

TEST(SizeTest, TheTableIsForPeople) {
  EXPECT_EQ(Kvtier("size --model llama-3.1-70b --requests 8 --host 100GiB --prefill-rate 8192").out,
            R"(MODEL  llama-3.1-70b: 80 layers, 8 KV heads of 128, bf16; grouped-query attention

KEYS AND VALUES OF                  BYTES   ROUNDED
a token                           327,680   320 KiB
a request of 8,192 tokens   2,684,354,560  2.50 GiB
8 requests                 21,474,836,480  20.0 GiB

TIER    BYTES  TOKENS OF ONE CONTEXT  REQUESTS
host  100 GiB                327,680        40

Fetching a request beats recomputing it, which takes 1.00 s, above 2.50 GiB/s.
)");
}

TEST(SizeTest, TheJsonIsForPrograms) {
  const Outcome outcome = Kvtier("size --model deepseek-v3 --tokens 1000 --disk 1GiB -o json");
  EXPECT_EQ(outcome.code, ExitCode::kOk);
  EXPECT_EQ(outcome.out, R"({
  "schema_version": 1,
  "model": {
    "name": "deepseek-v3",
    "attention": "multi-head latent",
    "layers": 61,
    "heads": 128,
    "kv_heads": 0,
    "head_dim": 0,
    "latent_dim": 576,
    "index_bytes": 0,
    "window_tokens": 0,
    "window_layers": 0,
    "dtype": "bf16",
    "parameters": 37000000000
  },
  "token_bytes": 70272,
  "request_tokens": 1000,
  "request_bytes": 70272000,
  "requests": 1,
  "total_bytes": 70272000,
  "tiers": [
    {
      "tier": "disk",
      "bytes": 1073741824,
      "context_tokens": 15279,
      "requests": 15
    }
  ],
  "recompute": null
}
)");
}

TEST(SizeTest, WrongQuestionsNameTheOptionAndItsValue) {
  const std::pair<const char*, const char*> kCases[] = {
      {"size", "layers must be 1 to 1024, not 0"},
      {"size --model gpt-9", "--model 'gpt-9' is not one of: deepseek-v3, falcon-7b"},
      {"size --layers 0", "--layers must be a whole number from 1 to 1024, not '0'"},
      {"size --layers 1025", "--layers must be a whole number from 1 to 1024, not '1025'"},
      {"size --kv-heads x", "--kv-heads must be a whole number from 1 to 1024, not 'x'"},
      {"size --layers 2 --head-dim 64", "kv_heads must be 1 to 1024, not 0"},
      {"size --layers 2 --kv-heads 2", "head_dim must be 1 to 4096, not 0"},
      {"size --layers 2 --kv-heads 2 --head-dim 64",
       "dtype must be fp32, fp16, bf16, fp8, int8, fp4 or int4, not ''; give --dtype"},
      {"size --model llama-3.1-8b --dtype q9",
       "dtype must be fp32, fp16, bf16, fp8, int8, fp4 or int4, "
       "not 'q9'"},
      {"size --model llama-3.1-8b --heads 12",
       "heads must be a multiple of kv_heads (8) up to 1024, not "
       "12"},
      {"size --model llama-3.1-8b --window-layers 10",
       "window and window_layers must both be given or neither, not 0 and 10; give --window"},
      {"size --model gemma-3-27b --layers 60",
       "52 of 62 layers have a window, and of 60 (--layers) it cannot be told; give "
       "--window-layers"},
      {"size --layers 2 --latent 576 --kv-heads 8 --head-dim 128 --dtype bf16",
       "a latent (--latent 576) stands instead of heads; give --latent, or --kv-heads and "
       "--head-dim"},
      {"size --layers 2 --latent 576 --head-dim 128 --dtype bf16", "stands instead of heads"},
      {"size --model deepseek-v3 --head-dim 128", "stands instead of heads"},
      {"size --model llama-3.1-8b --window 10 --window-layers 33",
       "window_layers must be at most layers (32), not 33"},
      {"size --layers 1 --kv-heads 1 --head-dim 1 --dtype int4 --heads 1", ""},
      {"size --layers 1 --latent 3 --dtype int4", "no whole number of bytes"},
      {"size --model llama-3.1-8b --host 0",
       "--host must be a size of memory, for example 64GiB, not '0'"},
      {"size --model llama-3.1-8b --host much", "not 'much'"},
      {"size --model llama-3.1-8b --tokens 100000001",
       "--tokens must be a whole number from 1 to 100000000, not '100000001'"},
      {"size --model llama-3.1-8b --requests 1000001",
       "--requests must be a whole number from 1 to "},
      {"size --model llama-3.1-405b --dtype fp32 --tokens 100000000 --requests 1000000",
       "are more than 2^64 bytes"},
      {"size --model llama-3.1-8b --flops fast",
       "--flops must be a number from 1e+09 to 1e+20, for example 4e14, not 'fast'"},
      {"size --model llama-3.1-8b --flops -1", "not '-1'"},
      {"size --model llama-3.1-8b --flops inf", "not 'inf'"},
      {"size --model llama-3.1-8b --flops nan", "not 'nan'"},
      {"size --model llama-3.1-8b --flops 9.9e8", "not '9.9e8'"},
      {"size --model llama-3.1-8b --flops 1.1e20", "not '1.1e20'"},
      {"size --model llama-3.1-8b --prefill-rate 1e-300",
       "--prefill-rate must be a number from 1 to 1e+08, for example 12000, not '1e-300'"},
      {"size --model llama-3.1-8b --prefill-rate 1e300", "not '1e300'"},
      {"size --model llama-3.1-8b --prefill-rate 0.9", "not '0.9'"},
      {"size --model llama-3.1-8b --prefill-rate 1.1e8", "not '1.1e8'"},
      {"size --model llama-3.1-8b --parameters 1e16",
       "--parameters must be a number from 1 to 1e+15, for example 8e9, not '1e16'"},
      {"size --model llama-3.1-8b --parameters 0.5", "not '0.5'"},
      {"size --model llama-3.1-8b --flops 1e9 --prefill-rate 1",
       "--prefill-rate or --flops, not both"},
      {"size --model llama-3.1-8b --config x", "--model or --config, not both"},
      {"size --layers 1 --kv-heads 1 --head-dim 8 --dtype bf16 --flops 1e9",
       "--flops needs "
       "--parameters"},
      {"size --config /nowhere", "/nowhere cannot be read, or is empty"},
      {"size more", "size does not take 'more'"},
      {"size --agent a", "size does not take --agent"},
      {"status --layers 1", "status does not take --layers"},
  };
  for (const auto& [line, error] : kCases) {
    const Outcome outcome = Kvtier(line);
    if (*error == '\0') {
      EXPECT_EQ(outcome.code, ExitCode::kOk) << line << outcome.err;
      continue;
    }
    EXPECT_EQ(outcome.code, ExitCode::kUsage) << line;
    EXPECT_EQ(outcome.out, "") << line;
    EXPECT_THAT(outcome.err, HasSubstr(error)) << line;
  }
}

}  // namespace
}  // namespace kvtier::cli
