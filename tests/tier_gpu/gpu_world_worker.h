// GpuWorld::Worker is one worker of a GpuWorld: it runs steps on its own compute lane and submits a
// few of them ahead, as engines do.
#ifndef KVTIER_TESTS_TIER_GPU_GPU_WORLD_WORKER_H_
#define KVTIER_TESTS_TIER_GPU_GPU_WORLD_WORKER_H_

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/tier_gpu/gpu_world.h"
#include "tests/tier_gpu/world_steps.h"

namespace kvtier {

class GpuWorld::Worker {
 public:
  Worker(GpuWorld* world, const std::string& name);
  ~Worker();
  // Runs some steps, perhaps dies early, and ends all its sequences.
  Task<void> Live(int steps);

 private:
  struct Sequence {
    SequenceId id{};
    Tokens tokens;
    bool swapped_out = false;
    std::map<uint32_t, SharedHostBlock> swapped;  // By the block's index.
  };
  // Work of a step's kernel, in this order.
  struct Work {
    struct Copy {
      std::span<const std::byte> from;
      std::span<std::byte> to;
    };
    struct Write {
      std::span<std::byte> token;
      uint32_t value;
    };
    struct Read {
      std::span<const std::byte> block;
      Tokens tokens;
    };
    std::vector<Copy> copies;
    std::vector<Write> writes;
    std::vector<Read> reads;
  };

  // Runs `what` in the agent, between a request and its answer.
  template <typename What>
  auto Ask(What what);
  void Step();
  void Grow(Sequence* sequence, Work* work);
  void AddReads(const Sequence& sequence, Work* work);
  void Launch(Work work);
  void Begin();  // Begins a sequence, perhaps with a prefix from the cache.
  void Fork(const Sequence& sequence);
  // Ends the last sequence; offers its blocks to the cache.
  void End();
  void MakeRoom(const Sequence& beneficiary);
  void SwapOut(const std::vector<SequenceId>& victims);
  void SwapIn(Sequence* sequence);
  std::span<std::byte> slot(uint32_t index) const {
    return {region_->address() + world_->pool_->OffsetOf(index), kBlockBytes};
  }
  Tokens TokensOf(const Sequence& sequence, size_t block) const;
  // Submits the swaps after this step's kernel and before its end, on the worker's own offload
  // lane.
  void SubmitSwaps();
  Sequence* Find(SequenceId id);
  void Poll();
  void Die();

  GpuWorld* const world_;
  std::unique_ptr<testing::FaultyDevice> device_;  // Null: the worker is dead.
  std::unique_ptr<DeviceRegion> region_;
  PoolWorker number_{};
  double end_chance_ = 0;  // Chance that one sequence ends in a step.
  std::unique_ptr<WorldSteps> steps_;
  std::vector<Sequence> sequences_;
  // Swaps of this step: slot, and destination.
  std::vector<std::pair<uint32_t, SharedHostBlock>> swaps_;
  std::map<uint64_t, std::vector<SharedHostBlock>> swapping_;  // By number of the copy's ticket.
};

}  // namespace kvtier

#endif  // KVTIER_TESTS_TIER_GPU_GPU_WORLD_WORKER_H_
