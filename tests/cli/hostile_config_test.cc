// Gives `kvtier size` a config.json that somebody wrote to take its time, or the reader's terminal.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/config_members.h"
#include "cli/model_config.h"
#include "cli/size.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier::cli {
namespace {

using ::testing::HasSubstr;

class HostileConfigTest : public ::testing::Test {
 protected:
  ~HostileConfigTest() override { std::filesystem::remove(path_); }
  // Returns what the program prints to stderr about a config.json of this text.
  std::string Printed(const std::string& json) {
    std::ofstream(path_, std::ios::binary) << json;
    return RunSize({.size = {.config = path_}}).err;
  }

  const std::string path_ = ::testing::TempDir() + "kvtier-hostile-config.json";
};

// Returns a config with more members.
std::string Config(const std::string& more) {
  return absl::StrCat(R"({"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
                          "dtype": "bf16", "num_hidden_layers": 3, )",
                      more, "}");
}

// 20,000 brackets took 42 s, and their bytes went to the terminal.
TEST_F(HostileConfigTest, DeepNestingIsRefusedAtOnceAndNothingRawIsPrinted) {
  const std::string kEscape = "\x1b[31m\x07\xff";
  std::vector<std::string> hostile = {std::string(20'000, '['), std::string(kMaxConfigBytes, '{'),
                                      "\"" + kEscape + "\"",    kEscape,
                                      "{\"" + kEscape,          "{\"a\": " + kEscape + "}"};
  std::string objects;
  for (int i = 0; i < 20'000; ++i) objects += R"({"a":)";
  hostile.push_back(objects);
  hostile.push_back(objects + "1" + std::string(20'000, '}'));
  hostile.push_back(R"({"layer_types": ["\u001b[31m\u009b"], "num_hidden_layers": 1})");
  hostile.push_back(Config(R"("dtype": "\u001b[2J")"));
  hostile.push_back(Config(R"("attn_\u001b[31m": 1)"));
  hostile.push_back(Config("\"attn_" + std::string(100'000, 'x') + "\": 1"));
  for (const std::string& json : hostile) {
    const auto began = std::chrono::steady_clock::now();
    const std::string text = Printed(json);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    EXPECT_LT(took.count(), 1.0) << json.substr(0, 40);
    ASSERT_FALSE(text.empty()) << json.substr(0, 40);
    EXPECT_LT(text.size(), 1000u) << json.substr(0, 40);
    for (const char c : text.substr(0, text.size() - 1)) {
      ASSERT_TRUE(c >= ' ' && c <= '~') << static_cast<int>(c) << " in " << text;
    }
  }
  std::string at_bound = "1";
  for (size_t i = 1; i < kMaxConfigDepth; ++i) at_bound = "[" + at_bound + "]";
  EXPECT_EQ(Printed(Config("\"deep\": " + at_bound)), "");
  EXPECT_THAT(Printed(Config("\"deep\": [" + at_bound + "]")),
              HasSubstr("more than 32 brackets are open at once"));
}

// A file of the greatest size took 11 s when it had one entry for each two bytes.
TEST_F(HostileConfigTest, MoreEntriesThanAConfigHasAreRefused) {
  std::string zeros = "0";
  for (size_t i = 0; i < kMaxConfigEntries; ++i) zeros += ",0";
  EXPECT_THAT(Printed(Config("\"many\": [" + zeros + "]")),
              HasSubstr("it has more than 100000 entries"));
}

// Brackets in texts are none.
TEST_F(HostileConfigTest, TextsMayHaveBrackets) {
  EXPECT_EQ(Printed(Config(R"("chat": "\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[")")), "");
}

}  // namespace
}  // namespace kvtier::cli
