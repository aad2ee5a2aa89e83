#include "bench/workloads.h"

#include <algorithm>
#include <utility>

#include "bench/trace_generator.h"

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
                                .between_turns = StopReason::kToolUse};
// Agents that begin with the tools and the files of one of a few projects.
constexpr SessionKind kProjectAgent = {.shared_prompts = 4,
                                       .shared_tokens = 15'000,
                                       .first_tokens = 3000,
                                       .turn_tokens = 800,
                                       .spread = 0.8,
                                       .continues = 0.97,
                                       .pause = absl::Seconds(15),
                                       .between_turns = StopReason::kToolUse};
// One question each, behind one of many templates, some of which nearly everybody uses.
constexpr SessionKind kTemplate = {
    .shared_prompts = 60, .shared_tokens = 400, .skew = 2, .first_tokens = 700, .spread = 0.5};
// A long document that is read once.
constexpr SessionKind kScan = {.first_tokens = 30'000, .spread = 0.8};

Trace ChatsAndAgents() {
  TraceGenerator generator("chats_and_agents", kSeed);
  generator.AddSessions(kChat, 6000, absl::ZeroDuration(), kSpan);
  generator.AddSessions(kAgent, 12, absl::ZeroDuration(), kSpan);
  return std::move(generator).Finish();
}

Trace Templates() {
  TraceGenerator generator("templates", kSeed);
  generator.AddSessions(kTemplate, 25'000, absl::ZeroDuration(), kSpan);
  return std::move(generator).Finish();
}

Trace SharedStems() {
  TraceGenerator generator("shared_stems", kSeed);
  generator.AddSessions(kProjectAgent, 400, absl::ZeroDuration(), kSpan);
  return std::move(generator).Finish();
}

Trace ScansAmongChats() {
  TraceGenerator generator("scans_among_chats", kSeed);
  generator.AddSessions(kChat, 4000, absl::ZeroDuration(), kSpan);
  generator.AddSessions(kScan, 600, absl::ZeroDuration(), kSpan);
  return std::move(generator).Finish();
}

Trace PhaseChange() {
  TraceGenerator generator("phase_change", kSeed);
  generator.AddSessions(kChat, 3000, absl::ZeroDuration(), kSpan / 2);
  generator.AddSessions(kAgent, 40, kSpan / 2, kSpan);
  return std::move(generator).Finish();
}

Trace Flood() {
  TraceGenerator generator("flood", kSeed);
  generator.AddSessions(kChat, 4000, absl::ZeroDuration(), kSpan);
  generator.AddSessions(kScan, 800, kSpan * 9 / 20, kSpan * 11 / 20);
  return std::move(generator).Finish();
}

constexpr Workload kWorkloads[] = {
    {.name = "chats_and_agents",
     .description = "chats of a few turns, and agents that call tools in quick succession",
     .generate = ChatsAndAgents},
    {.name = "templates",
     .description = "short questions behind one of 60 templates",
     .generate = Templates},
    {.name = "shared_stems",
     .description = "agents that begin with one of four long stems",
     .generate = SharedStems},
    {.name = "scans_among_chats",
     .description = "long documents that are read once, among chats",
     .generate = ScansAmongChats},
    {.name = "phase_change",
     .description = "chats, and from the middle on agents",
     .generate = PhaseChange},
    {.name = "flood",
     .description = "chats, and in the tenth in the middle a flood of long documents",
     .generate = Flood},
};

}  // namespace

std::span<const Workload> Workloads() { return kWorkloads; }

const Workload* FindWorkload(absl::string_view name) {
  const auto found = std::ranges::find(kWorkloads, name, &Workload::name);
  return found == std::end(kWorkloads) ? nullptr : found;
}

}  // namespace kvtier::bench
