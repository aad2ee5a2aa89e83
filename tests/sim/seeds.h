// Runs worlds by seed and says what became of them.
#ifndef KVTIER_TESTS_SIM_SEEDS_H_
#define KVTIER_TESTS_SIM_SEEDS_H_

#include "tests/sim/world.h"

namespace kvtier::sim {

// Runs one seed. Says how to run it again when it fails, also when a CHECK ends the
// program in the middle.
Outcome RunSeed(const WorldOptions& options);

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_SEEDS_H_
