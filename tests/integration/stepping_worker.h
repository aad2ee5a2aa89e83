// Stations of a stepping worker's life (stepping_worker_main.cc), in their order, and the blocks
// that it puts. The worker and the test that stops it share them.
#ifndef KVTIER_TESTS_INTEGRATION_STEPPING_WORKER_H_
#define KVTIER_TESTS_INTEGRATION_STEPPING_WORKER_H_

#include <cstddef>

#include "tests/testing/test_worker.h"

namespace kvtier::testing {

// A worker that has passed a station has also done all before it.
enum class Station : size_t {
  kBeginStep,
  kReserve,
  kWriteFirst,
  kWriteRest,
  kEndStep,
  kCommit,
  kHold,
  kProve,
  kRelease,
  kTakeMemory,
  kGrow,
  kFork,
  kSwapOut,
  kSwapIn,
  kCheck,
  kGiveMemory,
};
inline constexpr size_t kStations = static_cast<size_t>(Station::kGiveMemory) + 1;

inline constexpr Blocks kPrefix = {.first = 100, .count = 4};  // Committed at kCommit.

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_INTEGRATION_STEPPING_WORKER_H_
