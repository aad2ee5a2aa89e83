// BlockRaces stresses the order of copies and compute: a store that reads blocks which a
// step writes, and a load into blocks which a step reads, again and again, with random
// values, places and paths. With the edges every word must be right; without one of
// them, how many are wrong says that the stress can see it.
#ifndef KVTIER_BENCH_BLOCK_RACES_H_
#define KVTIER_BENCH_BLOCK_RACES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "bench/step_compute.h"
#include "tier_gpu/device/signal_page.h"

namespace kvtier::bench {

// The two that were forgotten in the field.
struct RaceEdges {
  bool before_store = true;  // The offload awaits the end of the step that writes.
  bool before_load = true;   // The onboard awaits the end of the step that reads.
};

struct RaceCounts {
  uint64_t rounds = 0;
  uint64_t words = 0;  // Looked at, on either side.
  uint64_t wrong_stored = 0;
  uint64_t wrong_loaded = 0;
  uint64_t unordered = 0;  // StepCompute::unordered()
  uint64_t wrong() const { return wrong_stored + wrong_loaded + unordered; }
};

class BlockRaces {
 public:
  // `compute` is not owned, and nothing else uses its device meanwhile.
  BlockRaces(StepCompute* compute, RaceEdges edges, uint64_t seed);
  ~BlockRaces();
  BlockRaces(const BlockRaces&) = delete;
  BlockRaces& operator=(const BlockRaces&) = delete;

  // One more step: reads what was loaded two rounds ago and is loaded over behind it,
  // writes what is stored behind it. Looks at what was stored kRounds before.
  void Round();
  // Waits for everything, and looks at the rest. Once, last.
  RaceCounts Finish();

 private:
  static constexpr size_t kRounds = 3;  // On their way at once.
  static constexpr size_t kGroups = 2;  // Of blocks that are loaded, in turn.
  static constexpr size_t kBlocks = 4;  // Of a step, each way.
  using Group = std::array<StepBlock, kBlocks>;

  struct Flight {
    Group stored{};
    uint64_t copies = 0;  // Of its round that have not ended.
  };
  std::span<std::byte> StoredTo(size_t flight, size_t block);
  std::span<std::byte> LoadedFrom(size_t flight, size_t block);
  // Until its copies have ended, and the step of `round`.
  void WaitFor(size_t flight, uint64_t round);
  void LookAtStored(size_t flight);
  void SubmitCopy(CopyDirection direction, size_t flight, const Group& group);
  void Poll();

  StepCompute* const compute_;
  const RaceEdges edges_;
  std::mt19937_64 random_;
  const std::unique_ptr<SignalPage> page_;
  HostBytes host_;
  std::array<Flight, kRounds> flights_{};
  std::array<Group, kGroups> loaded_{};  // What each holds behind the last load.
  // By lane, the flight of each operation that has not ended; kRounds: of none.
  std::array<std::vector<size_t>, kLanes> pending_;
  RaceCounts counts_;
};

// Rounds for so long.
RaceCounts RunRaces(StepCompute* compute, RaceEdges edges, absl::Duration time);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_BLOCK_RACES_H_
