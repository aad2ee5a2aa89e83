#include "bench/trace_generator.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "core/check.h"

namespace kvtier::bench {
namespace {

// How one kind of session goes on.
struct Kind {
  int system_prompts;      // Shared among the sessions of the kind.
  uint64_t system_tokens;  // Of the shortest; the n-th is n times as long.
  double first_tokens;     // Median of what the first turn adds.
  double turn_tokens;      // Median of what each later turn adds, the answer included.
  double spread;           // Of both: sigma of the logarithm.
  double continues;        // Chance of one more turn.
  absl::Duration pause;    // Median, until the next turn.
  uint64_t most_tokens;    // The session ends there.
};
// A few long first prompts (documents) among many short ones.
constexpr Kind kChat = {.system_prompts = 4,
                        .system_tokens = 700,
                        .first_tokens = 2500,
                        .turn_tokens = 1500,
                        .spread = 1.3,
                        .continues = 0.45,
                        .pause = absl::Seconds(100),
                        .most_tokens = 128'000};
constexpr Kind kAgent = {.system_prompts = 3,
                         .system_tokens = 6000,
                         .first_tokens = 4000,
                         .turn_tokens = 1000,
                         .spread = 1.0,
                         .continues = 0.98,
                         .pause = absl::Seconds(15),
                         .most_tokens = 180'000};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}
  void AddSession(const Kind& kind, absl::Duration start);
  // Uniform in (0, 1). std::uniform_real_distribution differs between libraries.
  double Uniform() { return (static_cast<double>(random_() >> 12) + 0.5) / 0x1p52; }
  Trace Finish() && { return std::move(trace_).Finish(); }

 private:
  // Log-normal about `median`, by Box and Muller (1958).
  double Around(double median, double sigma);
  // The names of a system prompt's blocks, the same in every session that has it.
  std::vector<uint64_t> SystemBlocks(const Kind& kind, uint64_t prompt);

  std::mt19937_64 random_;
  TraceBuilder trace_{"generated"};
  std::vector<std::pair<uint64_t, std::vector<uint64_t>>> system_blocks_;  // By length.
  uint64_t next_block_ = 0;
};

double Generator::Around(double median, double sigma) {
  constexpr double kTwoPi = 6.283185307179586;
  const double radius = std::sqrt(-2 * std::log(Uniform()));
  return median * std::exp(sigma * radius * std::cos(kTwoPi * Uniform()));
}

std::vector<uint64_t> Generator::SystemBlocks(const Kind& kind, uint64_t prompt) {
  const uint64_t tokens = kind.system_tokens * (prompt + 1);
  for (const auto& [length, blocks] : system_blocks_) {
    if (length == tokens) return blocks;
  }
  std::vector<uint64_t> blocks(tokens / kTokensPerBlock);
  for (uint64_t& block : blocks) block = next_block_++;
  system_blocks_.emplace_back(tokens, blocks);
  return blocks;
}

void Generator::AddSession(const Kind& kind, absl::Duration start) {
  const uint64_t prompt = random_() % static_cast<uint64_t>(kind.system_prompts);
  std::vector<uint64_t> blocks = SystemBlocks(kind, prompt);
  uint64_t tokens = kind.system_tokens * (prompt + 1);
  double added = Around(kind.first_tokens, kind.spread);
  absl::Duration at = start;
  do {
    tokens = std::min(tokens + static_cast<uint64_t>(added) + 1, kind.most_tokens);
    while (blocks.size() < tokens / kTokensPerBlock) blocks.push_back(next_block_++);
    KVT_CHECK(trace_.Add(at, tokens, blocks).ok());  // Names are never used twice.
    added = Around(kind.turn_tokens, kind.spread);
    at += kind.pause * Around(1, kind.spread);
  } while (Uniform() < kind.continues && tokens < kind.most_tokens);
}

}  // namespace

Trace GenerateTrace(const GeneratorOptions& options) {
  Generator generator(options.seed);
  for (int i = 0; i < options.chats; ++i) {
    generator.AddSession(kChat, generator.Uniform() * options.span);
  }
  for (int i = 0; i < options.agents; ++i) {
    generator.AddSession(kAgent, generator.Uniform() * options.span);
  }
  return std::move(generator).Finish();
}

}  // namespace kvtier::bench
