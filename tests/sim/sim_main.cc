// kvtier-sim runs simulated clusters.
//
//   kvtier-sim --seed N [--aloud]        one seed, with its trace
//   kvtier-sim --seeds N [--first F]     seeds F..F+N-1; stops at the first failure
//   kvtier-sim ... --gpu-pools           worlds of GPU pools, not whole ones
//   kvtier-sim ... --hash                prints "seed hash" a line: equal on every run
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/sim/coverage.h"
#include "tests/sim/seeds.h"

namespace {

uint64_t NumberAfter(const char* flag, int argc, char** argv, uint64_t otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], flag) == 0) return std::strtoull(argv[i + 1], nullptr, 10);
  }
  return otherwise;
}

bool Has(const char* flag, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], flag) == 0) return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  using kvtier::sim::Outcome;
  using kvtier::sim::WorldKind;
  uint64_t first = NumberAfter("--first", argc, argv, 1);
  uint64_t count = NumberAfter("--seeds", argc, argv, 0);
  if (Has("--seed", argc, argv)) {
    first = NumberAfter("--seed", argc, argv, 1);
    count = 1;
  }
  if (count == 0) {
    std::fprintf(
        stderr,
        "usage: kvtier-sim --seed N | --seeds N [--first F] [--gpu-pools] [--aloud] [--hash]\n");
    return 2;
  }
  const WorldKind kind = Has("--gpu-pools", argc, argv) ? WorldKind::kGpuPools : WorldKind::kWhole;
  uint64_t checked = 0;
  kvtier::sim::Coverage coverage;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Outcome outcome =
        kvtier::sim::RunSeed({.seed = seed, .kind = kind, .aloud = Has("--aloud", argc, argv)});
    if (!outcome.failure.empty()) return 1;
    coverage.Add(outcome.coverage);
    checked += outcome.blocks_checked;
    if (Has("--hash", argc, argv)) {
      std::printf("%llu %016llx\n", static_cast<unsigned long long>(seed),
                  static_cast<unsigned long long>(outcome.hash));
    }
  }
  if (!Has("--hash", argc, argv)) {
    std::printf("%llu seeds held, %llu blocks checked byte for byte\n",
                static_cast<unsigned long long>(count), static_cast<unsigned long long>(checked));
    coverage.Print(stdout);
  }
  return 0;
}
