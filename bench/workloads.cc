#include "bench/workloads.h"

#include <algorithm>
#include <utility>

namespace kvtier::bench {
namespace {

constexpr uint64_t kSeed = 1;
// Time in which the sessions of a workload start.
constexpr absl::Duration kSpan = absl::Hours(2);

// Chats have a few long first prompts (documents) among many short ones.
constexpr SessionKind kChat = {.shared_prompts = 4,
                               .shared_tokens = 700,
                               .first_tokens = 2500,
                               .turn_tokens = 1500,
                               .spread = 1.3,
                               .continues = 0.45,
                               .pause = absl::Seconds(100)};
constexpr SessionKind kAgent = {.shared_prompts = 3,
                                .shared_tokens = 6000,
                                .first_tokens = 4000,
                                .turn_tokens = 1000,
                                .continues = 0.98,
                                .pause = absl::Seconds(15),
                                .most_tokens = 180'000,
                                .between_turns = FinishReason::kToolCalls};
// These agents begin with the tools and the files of one of a few projects.
constexpr SessionKind kProjectAgent = {.shared_prompts = 4,
                                       .shared_tokens = 15'000,
                                       .first_tokens = 3000,
                                       .turn_tokens = 800,
                                       .spread = 0.8,
                                       .continues = 0.97,
                                       .pause = absl::Seconds(15),
                                       .between_turns = FinishReason::kToolCalls};
// Each session is one question, after one of many templates, some of which most sessions use.
constexpr SessionKind kTemplate = {
    .shared_prompts = 60, .shared_tokens = 400, .skew = 2, .first_tokens = 700, .spread = 0.5};
// Each session reads a long document once.
constexpr SessionKind kScan = {.first_tokens = 30'000, .spread = 0.8};

constexpr SessionGroup kChatsAndAgents[] = {{.kind = &kChat, .count = 6000},
                                            {.kind = &kAgent, .count = 12}};
constexpr SessionGroup kTemplates[] = {{.kind = &kTemplate, .count = 25'000}};
constexpr SessionGroup kSharedStems[] = {{.kind = &kProjectAgent, .count = 400}};
constexpr SessionGroup kScansAmongChats[] = {{.kind = &kChat, .count = 4000},
                                             {.kind = &kScan, .count = 600}};
constexpr SessionGroup kPhaseChange[] = {{.kind = &kChat, .count = 3000, .end = 10},
                                         {.kind = &kAgent, .count = 40, .begin = 10}};
constexpr SessionGroup kFlood[] = {{.kind = &kChat, .count = 4000},
                                   {.kind = &kScan, .count = 800, .begin = 9, .end = 11}};

constexpr Workload kWorkloads[] = {
    {"chats_and_agents", "chats of a few turns, and agents that call tools in quick succession",
     kChatsAndAgents},
    {"templates", "short questions behind one of 60 templates", kTemplates},
    {"shared_stems", "agents that begin with one of four long stems", kSharedStems},
    {"scans_among_chats", "long documents that are read once, among chats", kScansAmongChats},
    {"phase_change", "chats, and from the middle on agents", kPhaseChange},
    {"flood", "chats, and in the tenth in the middle a flood of long documents", kFlood},
};

}  // namespace

Trace Workload::Generate() const {
  TraceGenerator generator(name, kSeed);
  for (const SessionGroup& group : groups) {
    generator.AddSessions(*group.kind, group.count, kSpan * group.begin / 20,
                          kSpan * group.end / 20);
  }
  return std::move(generator).Finish();
}

std::span<const Workload> Workloads() { return kWorkloads; }

const Workload* FindWorkload(absl::string_view name) {
  const auto found = std::ranges::find(kWorkloads, name, &Workload::name);
  return found == std::end(kWorkloads) ? nullptr : found;
}

}  // namespace kvtier::bench
