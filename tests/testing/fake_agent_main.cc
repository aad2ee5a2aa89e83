// A FakeAgent in a process of its own, for tests in other languages: started with its
// socket directory, told what to do by lines on stdin, answers each with one line.
#include <cstdio>
#include <iostream>
#include <string>

#include "tests/testing/fake_agent.h"

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
    } else {
      answer = "unknown command";
    }
    std::cout << answer << std::endl;
  }
  return 0;
}
