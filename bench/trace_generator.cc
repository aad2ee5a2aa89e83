#include "bench/trace_generator.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace kvtier::bench {

double TraceGenerator::Around(double median, double sigma) {
  constexpr double kTwoPi = 6.283185307179586;
  const double radius = std::sqrt(-2 * std::log(Uniform()));
  return median * std::exp(sigma * radius * std::cos(kTwoPi * Uniform()));
}

uint64_t TraceGenerator::DrawSharedPrompt(const SessionKind& kind) {
  double place = 1;
  for (int i = 0; i < kind.skew; ++i) place *= Uniform();
  return static_cast<uint64_t>(place * static_cast<double>(kind.shared_prompts));
}

void TraceGenerator::Extend(uint64_t tokens, std::vector<uint64_t>* blocks) {
  while (blocks->size() < tokens / kTokensPerBlock) blocks->push_back(next_block_++);
}

void TraceGenerator::AddSessions(const SessionKind& kind, int count, absl::Duration begin,
                                 absl::Duration end) {
  for (int i = 0; i < count; ++i) AddSession(kind, begin + Uniform() * (end - begin));
}

void TraceGenerator::AddSession(const SessionKind& kind, absl::Duration start) {
  uint64_t tokens = 0;
  std::vector<uint64_t> blocks;
  if (kind.shared_prompts > 0) {
    const uint64_t prompt = DrawSharedPrompt(kind);
    tokens = kind.shared_tokens * (prompt + 1);
    std::vector<uint64_t>& shared = shared_[std::pair(&kind, prompt)];
    Extend(tokens, &shared);
    blocks = shared;
  }
  ReuseHint hint{.conversation = ++sessions_, .turn = 0};
  double added = Around(kind.first_tokens, kind.spread);
  absl::Duration at = start;
  for (bool goes_on = true; goes_on; ++*hint.turn) {
    tokens = std::min(tokens + static_cast<uint64_t>(added) + 1, kind.most_tokens);
    Extend(tokens, &blocks);
    goes_on = Uniform() < kind.continues && tokens < kind.most_tokens;
    hint.finish = goes_on ? kind.between_turns : FinishReason::kStop;
    KVT_CHECK(trace_.Add(at, tokens, blocks, hint).ok());  // Names are never used twice.
    added = Around(kind.turn_tokens, kind.spread);
    at += kind.pause * Around(1, kind.spread);
  }
}

}  // namespace kvtier::bench
