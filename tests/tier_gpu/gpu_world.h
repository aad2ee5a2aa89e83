// GpuWorld plays an agent and its workers on one emulated GPU, each with lanes of its own.
// Sequences grow, fork, are swapped out and in, end and are cached, and are onboarded again;
// workers die. Every token has a value, which every step checks where it reads; the access checker
// checks the order of all accesses.
#ifndef KVTIER_TESTS_TIER_GPU_GPU_WORLD_H_
#define KVTIER_TESTS_TIER_GPU_GPU_WORLD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/task_scope.h"
#include "tests/testing/faulty_device.h"
#include "tests/testing/sim_executor.h"
#include "tier_gpu/device/access_checker.h"
#include "tier_gpu/gpu_pool.h"
#include "tier_gpu/lane_runner.h"
#include "tier_gpu/step_words.h"
#include "tier_gpu/tables/block_table.h"

namespace kvtier {

// LeftOut says which waits to leave out, to make the known bugs.
struct LeftOut {
  // Whether an offload does not wait for the step that writes the block, so that the copy reads
  // bytes that the compute is still writing.
  bool wait_for_writer = false;
  // Whether a slot is reused without waiting for the last steps that read it, so that the next
  // owner overwrites bytes that the compute is still reading.
  bool wait_for_readers = false;
};

class GpuWorld {
 public:
  GpuWorld(uint64_t seed, LeftOut left_out);
  ~GpuWorld();

  // Runs until every worker has ended.
  void Run();

  const std::vector<std::string>& races() const { return checker_.races(); }
  uint64_t wrong_tokens() const { return wrong_tokens_; }
  // Counts of events, so that tests can check that enough of each happened.
  struct Counts {
    uint64_t steps = 0, copies_on_write = 0, forks = 0, offloads = 0, onboards = 0;
    uint64_t swaps_out = 0, swaps_in = 0, crashes = 0, declined = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  class Worker;
  static constexpr uint32_t kBlockTokens = 4;
  static constexpr uint64_t kTokenBytes = 1024;
  static constexpr uint64_t kBlockBytes = kBlockTokens * kTokenBytes;
  static constexpr uint32_t kSlots = 14;
  static constexpr size_t kHostBlocks = 64;
  using Tokens = std::vector<uint32_t>;

  // Room for one block in the agent's host memory. Free again when no pointer holds it.
  struct HostBlock {
    HostBlock(GpuWorld* world, size_t index) : world(world), index(index) {}
    ~HostBlock() { world->free_host_.push_back(index); }
    GpuWorld* const world;
    const size_t index;
    bool filled = false;
    Tokens tokens;
  };
  using SharedHostBlock = std::shared_ptr<HostBlock>;

  // Copy a block for the agent, which holds the slot until the copy ends.
  Task<void> CopyOut(SlotRef slot, SharedHostBlock to, PoolWorker worker, uint64_t step);
  Task<void> CopyIn(SlotRef slot, SharedHostBlock from, LaneRunner::Mark arrived);
  Task<void> Offload(SlotRef slot, SharedHostBlock to, PoolWorker worker, uint64_t step);
  // Observes which steps have ended, as every request to the agent does first.
  void Observe();
  std::span<std::byte> BytesOf(const HostBlock& block) {
    return std::span(host_).subspan(block.index * kBlockBytes, kBlockBytes);
  }
  // Takes room for a block; nullptr: none is free.
  SharedHostBlock TakeHostBlock();
  void CheckTokens(std::span<const std::byte> block, std::span<const uint32_t> tokens);
  bool Chance(double probability) { return std::bernoulli_distribution(probability)(random_); }
  size_t Below(size_t bound) { return random_() % bound; }

  const LeftOut left_out_;
  std::mt19937_64 random_;
  Counts counts_;
  uint64_t wrong_tokens_ = 0;
  AccessChecker checker_{kBlockBytes};
  testing::SimTime time_;
  testing::SimExecutor executor_{&time_};
  std::vector<std::byte> host_ = std::vector<std::byte>(kHostBlocks * kBlockBytes);
  std::vector<size_t> free_host_;
  std::vector<SharedHostBlock> cache_;
  std::unique_ptr<SignalPage> requests_;  // Stands for the control messages.
  testing::FaultyDevice device_;
  LaneRunner runner_{&device_, &executor_, &executor_};
  std::unique_ptr<GpuPool> pool_;
  std::unique_ptr<BlockTable> tables_;
  TaskScope scope_{&executor_};
  std::unique_ptr<StepWords> words_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace kvtier

#endif  // KVTIER_TESTS_TIER_GPU_GPU_WORLD_H_
