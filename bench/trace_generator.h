// TraceGenerator makes traces for users who have none, session by session. Their shape resembles
// published traces (most chats end after a turn or two, an agent goes on for dozens); their figures
// describe no real service.
//
// The same calls make the same trace on every machine. Every request has a hint.
#ifndef KVTIER_BENCH_TRACE_GENERATOR_H_
#define KVTIER_BENCH_TRACE_GENERATOR_H_

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "bench/trace.h"

namespace kvtier::bench {

// Parameters of one kind of session.
struct SessionKind {
  // Number of prompts with which the sessions of the kind begin, one each; 0: they share nothing.
  uint64_t shared_prompts = 0;
  uint64_t shared_tokens = 0;  // Tokens of the shortest one; the n-th has n times as many.
  // Skew of the choice. 1: all shared prompts are equally likely; above 1, shorter ones are
  // likelier.
  int skew = 1;
  double first_tokens = 0;  // Median of the tokens that the first turn adds.
  double turn_tokens = 0;   // Median of the tokens that each later turn adds, answer included.
  double spread = 1;        // Sigma of the logarithm of the lengths and pauses.
  double continues = 0;     // Chance of one more turn.
  absl::Duration pause;     // Median time until the next turn.
  uint64_t most_tokens = 128'000;                    // Length at which a session ends.
  FinishReason between_turns = FinishReason::kStop;  // Reason of all turns but the last.
};

class TraceGenerator {
 public:
  TraceGenerator(absl::string_view name, uint64_t seed) : random_(seed), trace_(name) {}

  // Adds `count` sessions that start at random times of [begin, end). A kind is identified by its
  // address, and must outlive the generator.
  void AddSessions(const SessionKind& kind, int count, absl::Duration begin, absl::Duration end);
  Trace Finish() && { return std::move(trace_).Finish(); }

 private:
  void AddSession(const SessionKind& kind, absl::Duration start);
  // Returns a number in (0, 1). std::uniform_real_distribution differs between libraries.
  double Uniform() { return (static_cast<double>(random_() >> 12) + 0.5) / 0x1p52; }
  // Returns a log-normal number around `median`, by Box and Muller (1958).
  double Around(double median, double sigma);
  uint64_t DrawSharedPrompt(const SessionKind& kind);
  // Appends new names until `blocks` has as many as `tokens` tokens need.
  void Extend(uint64_t tokens, std::vector<uint64_t>* blocks);

  std::mt19937_64 random_;
  TraceBuilder trace_;
  // Names of the blocks of shared prompts.
  absl::flat_hash_map<std::pair<const SessionKind*, uint64_t>, std::vector<uint64_t>> shared_;
  uint64_t next_block_ = 0;
  uint32_t sessions_ = 0;  // Number of the last one.
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_TRACE_GENERATOR_H_
