#include "tests/sim/seeds.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "core/log.h"

namespace kvtier::sim {
namespace {

const World* running = nullptr;
WorldOptions running_options;

void SayHowToReplay() {
  const auto seed = static_cast<unsigned long long>(running_options.seed);
  const bool pools = running_options.kind == WorldKind::kGpuPools;
  std::fprintf(stderr, "seed %llu failed; run it again: bin/kvtier-sim --seed %llu%s --aloud\n",
               seed, seed, pools ? " --gpu-pools" : "");
}

// Prints the trace of the world as the failed CHECK left it, which is safe enough in a program that
// is about to die.
void OnAbort(int) {
  if (running != nullptr) {
    running->trace().PrintTail(stderr);
    SayHowToReplay();
  }
  std::_Exit(1);
}

}  // namespace

Outcome RunSeed(const WorldOptions& options) {
  SetLogLevel(static_cast<LogLevel>(static_cast<int>(LogLevel::kError) + 1));
  std::signal(SIGABRT, OnAbort);
  World world(options);
  running = &world;
  running_options = options;
  const Outcome outcome = world.Run();
  if (!outcome.failure.empty()) {
    std::fprintf(stderr, "%s\n", outcome.failure.c_str());
    world.trace().PrintTail(stderr);
    SayHowToReplay();
  }
  running = nullptr;
  return outcome;
}

}  // namespace kvtier::sim
