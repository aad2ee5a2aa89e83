#include "cli/model_presets.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace kvtier::cli {
namespace {

constexpr uint64_t kMillion = 1'000'000;

// Returns the facts of a model that keeps keys and values in all of its layers.
ModelFacts Plain(std::string name, uint64_t layers, uint64_t heads, uint64_t kv_heads,
                 uint64_t head_dim, std::string dtype, uint64_t million_parameters) {
  return {.name = std::move(name),
          .layers = layers,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .dtype = std::move(dtype),
          .parameters = million_parameters * kMillion};
}

ModelFacts Windowed(ModelFacts facts, uint64_t window, uint64_t window_layers) {
  facts.window = window;
  facts.window_layers = window_layers;
  return facts;
}

// Returns the facts of a model whose queries and keys compare `compared` numbers in each head, and
// whose values have `value_dim`.
ModelFacts Latent(ModelFacts facts, uint64_t latent_dim, uint64_t compared, uint64_t value_dim) {
  facts.latent_dim = latent_dim;
  facts.attention_width = facts.heads * (compared + value_dim) / 2;
  return facts;
}

}  // namespace

// Gives a mixture of experts its active parameters.
std::span<const ModelFacts> ModelPresets() {
  static const std::vector<ModelFacts> kPresets = {
      Latent(Plain("deepseek-v3", 61, 128, 0, 0, "bf16", 37'000), 512 + 64, 128 + 64, 128),
      Plain("falcon-7b", 32, 71, 1, 64, "bf16", 7'200),
      Windowed(Plain("gemma-3-27b", 62, 32, 16, 128, "bf16", 27'000), 1024, 52),
      Windowed(Plain("gpt-oss-120b", 36, 64, 8, 64, "bf16", 5'100), 128, 18),
      Windowed(Plain("gpt-oss-20b", 24, 64, 8, 64, "bf16", 3'600), 128, 12),
      Plain("llama-2-70b", 80, 64, 8, 128, "fp16", 69'000),
      Plain("llama-2-7b", 32, 32, 32, 128, "fp16", 6'740),
      Plain("llama-3.1-405b", 126, 128, 8, 128, "bf16", 405'900),
      Plain("llama-3.1-70b", 80, 64, 8, 128, "bf16", 70'600),
      Plain("llama-3.1-8b", 32, 32, 8, 128, "bf16", 8'030),
      Plain("mistral-7b-v0.3", 32, 32, 8, 128, "bf16", 7'250),
      Plain("mixtral-8x7b", 32, 32, 8, 128, "bf16", 12'900),
      Plain("qwen2.5-72b", 80, 64, 8, 128, "bf16", 72'700),
      Plain("qwen2.5-7b", 28, 28, 4, 128, "bf16", 7'620),
      Plain("qwen3-235b-a22b", 94, 64, 4, 128, "bf16", 22'000),
      Plain("qwen3-32b", 64, 64, 8, 128, "bf16", 32'800),
      Plain("qwen3-8b", 36, 32, 8, 128, "bf16", 8'200),
      Plain("smollm2-135m", 30, 9, 3, 64, "bf16", 135),
  };
  return kPresets;
}

const ModelFacts* FindPreset(absl::string_view name) {
  const std::span<const ModelFacts> presets = ModelPresets();
  const auto found = std::ranges::find(presets, name, &ModelFacts::name);
  return found == presets.end() ? nullptr : &*found;
}

}  // namespace kvtier::cli
