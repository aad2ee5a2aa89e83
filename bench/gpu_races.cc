// The race stress, with the edges between copies and compute and without each of them.
#include <cstdio>

#include "absl/time/time.h"
#include "bench/block_races.h"
#include "bench/gpu_sections.h"

namespace kvtier::bench {
namespace {

struct RaceCase {
  const char* name;
  RaceEdges edges;
};

RaceCounts MeasureCase(GpuRig* rig, const RaceCase& one, absl::Duration time) {
  const auto compute = StepComputeOf(rig, 1);
  const RaceCounts counts = RunRaces(compute.get(), one.edges, time);
  std::printf("  %-34s %9lu %9.2e %14lu %14lu", one.name, counts.rounds,
              static_cast<double>(counts.words), counts.wrong_stored, counts.wrong_loaded);
  // The checker stops counting at a hundred.
  if (rig->emulated()) std::printf(" %10lu%s", counts.unordered, counts.unordered < 100 ? "" : "+");
  std::printf("\n");
  return counts;
}

}  // namespace

uint64_t MeasureRaces(GpuRig* rig, RaceEdges edges, absl::Duration time, GpuFigures* figures) {
  std::printf(
      "\nrace stress: steps that write blocks which are stored behind them, and read "
      "blocks which are loaded over behind them%s\n",
      rig->emulated() ? " (the emulated device's own orders, in virtual time)" : "");
  std::printf("  %-34s %9s %9s %14s %14s%s\n", "", "steps", "words", "wrong stored", "wrong loaded",
              rig->emulated() ? "  unordered" : "");
  const RaceCounts ordered = MeasureCase(rig, {"with the edges", edges}, time);
  const RaceCounts stores =
      MeasureCase(rig, {"stores do not await their writers", {.before_store = false}}, time / 10);
  const RaceCounts loads =
      MeasureCase(rig, {"loads do not await the readers", {.before_load = false}}, time / 10);
  // Half of the words that were looked at were stored, half loaded.
  const auto share = [](uint64_t wrong, const RaceCounts& counts) {
    return 2 * static_cast<double>(wrong) / static_cast<double>(counts.words);
  };
  figures->push_back({"gpu.races.with_edges", static_cast<double>(ordered.wrong()), "words",
                      share(ordered.wrong(), ordered) / 2, "all words"});
  figures->push_back({"gpu.races.without_store_edge", static_cast<double>(stores.wrong_stored),
                      "words", share(stores.wrong_stored, stores), "the words stored"});
  figures->push_back({"gpu.races.without_load_edge", static_cast<double>(loads.wrong_loaded),
                      "words", share(loads.wrong_loaded, loads), "the words loaded"});
  if (ordered.wrong() > 0) std::printf("  FAILED: words are wrong with the edges\n");
  return ordered.wrong();
}

}  // namespace kvtier::bench
