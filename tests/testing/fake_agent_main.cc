// A FakeAgent in a process of its own, for tests in other languages. It is started with its socket
// directory, reads commands from stdin, one on a line, and answers each with one line.
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/reuse_hint.h"
#include "tests/testing/fake_agent.h"

namespace {

// Returns the hints of the last call, each followed by a blank: "none", or conversation
// (hexadecimal), turn, priority, will_not_return and the number of finish, with commas between.
std::string HintsOf(const kvtier::testing::FakeAgentCounts& counts) {
  std::string text;
  for (const std::optional<kvtier::ReuseHint>& hint : counts.hints) {
    if (!hint) {
      text += "none ";
      continue;
    }
    absl::StrAppend(&text, absl::Hex(hint->conversation), ",",
                    hint->turn ? absl::StrCat(*hint->turn) : "-", ",", hint->priority, ",",
                    hint->will_not_return ? 1 : 0, ",", static_cast<int>(hint->finish), " ");
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  using kvtier::testing::FakeAgent;
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s SOCKET_DIR\n", argv[0]);
    return 2;
  }
  FakeAgent agent({.socket_dir = argv[1], .slot_bytes = 65536, .has_gpu_pool = true});
  for (std::string line; std::getline(std::cin, line);) {
    std::string answer = "ok";
    if (line == "start") {
      agent.Start();
    } else if (line == "kill") {
      agent.Kill();
    } else if (line == "hang") {
      agent.HangCalls(FakeAgent::Hang::kAll);
    } else if (line == "hang parts") {
      agent.HangCalls(FakeAgent::Hang::kParts);
    } else if (line == "resume") {
      agent.Resume();
    } else if (line == "grow residency") {
      agent.GrowResidency();
    } else if (line == "leases") {
      answer = std::to_string(agent.Counts().leases);
    } else if (line == "reservations") {
      answer = std::to_string(agent.Counts().reservations);
    } else if (line == "committed step") {
      answer = std::to_string(agent.Counts().committed_step);
    } else if (line == "retired step") {
      answer = std::to_string(agent.Counts().retired_step);
    } else if (line == "hints") {
      answer = HintsOf(agent.Counts());
    } else {
      answer = "unknown command";
    }
    std::cout << answer << std::endl;
  }
  return 0;
}
