// Runs worlds by seed and reports their results.
#ifndef KVTIER_TESTS_SIM_SEEDS_H_
#define KVTIER_TESTS_SIM_SEEDS_H_

#include "tests/sim/world.h"

namespace kvtier::sim {

// Runs one seed. If it fails, prints how to run it again, also if a CHECK ends the program.
Outcome RunSeed(const WorldOptions& options);

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_SEEDS_H_
