// TierLoad puts load on a DiskTier: streams that put or get one block after another, or gets that
// start evenly spaced, whether or not earlier ones have ended.
#ifndef KVTIER_BENCH_TIER_LOAD_H_
#define KVTIER_BENCH_TIER_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "bench/io_figures.h"
#include "core/checksum.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "tier_disk/disk_tier.h"

namespace kvtier::bench {

// TierLoad is made on any thread and used on the tier's executor. The tier verifies every get.
class TierLoad {
 public:
  static constexpr uint64_t kLargestBlock = 8 << 20;
  static constexpr size_t kMaxGetBytes = 64 << 20;  // Maximum bytes of gets in flight.

  static constexpr uint64_t kMemoryBytes = kLargestBlock + kMaxGetBytes;

  // Owns none of these. Blocks move to and from `memory`, as in an agent. REQUIRES: `memory` has
  // kMemoryBytes.
  TierLoad(Executor* executor, DiskTier* tier, std::span<std::byte> memory);

  // Streams that put or get blocks of `bytes`, each one block at a time.
  struct Streams {
    uint64_t bytes = 0;
    int streams = 1;
    absl::Duration for_time = absl::InfiniteDuration();
    uint64_t limit = ~uint64_t{0};  // Bytes after which puts end; gets ignore it.
  };
  Task<IoFigures> Put(Streams load);
  Task<IoFigures> Get(Streams load);

  // Gets that start evenly spaced at this rate, with puts at another rate; the figures are those of
  // the gets.
  struct Paced {
    uint64_t bytes = 0;
    double get_bytes_per_second = 0;
    double put_bytes_per_second = 0;
    absl::Duration for_time;
  };
  Task<IoFigures> GetPaced(Paced load);

  uint64_t declined() const { return declined_; }  // Number of puts declined for lack of room.
  uint64_t failures() const { return failures_; }
  const absl::Status& first_failure() const { return first_failure_; }  // OK: there was none.

 private:
  class Measurement;
  Task<void> PutStream(Streams load);
  Task<void> GetStream(std::span<std::byte> slot, uint64_t seed);
  // Moves one block; times it if `latencies` is given.
  Task<void> PutOne(uint64_t bytes, std::vector<double>* latencies);
  Task<void> GetOne(BlockKey key, std::span<std::byte> slot);
  Task<void> PutPaced(Paced load, TaskScope* puts);
  // Names the blocks of so many bytes of puts. Called before a measurement, which excludes it.
  void NameBlocks(double bytes, uint64_t block_bytes);
  void Count(const absl::Status& failure);
  std::vector<std::span<std::byte>> SlotsOf(uint64_t bytes, size_t most);
  // Returns the keys for Get(): every block of that size.
  std::vector<BlockKey> KeysOf(uint64_t bytes) const;

  Executor* const executor_;
  DiskTier* const tier_;
  const std::span<std::byte> memory_;  // Payload of every put, then slots for gets.
  std::span<std::byte> payload_;
  PayloadSum sum_;               // Sum of the blocks being put.
  std::vector<BlockKey> keys_;   // Keys for gets.
  std::vector<BlockKey> names_;  // Keys of the puts so far, and of puts to come.
  size_t puts_ = 0;              // Number of puts so far.
  absl::Time until_;
  uint64_t moved_ = 0;             // Bytes of the current measurement.
  std::vector<double> latencies_;  // Latencies of its gets or puts, in seconds.
  uint64_t declined_ = 0;
  uint64_t failures_ = 0;
  absl::Status first_failure_;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_TIER_LOAD_H_
