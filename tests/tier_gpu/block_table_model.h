// BlockTableModel runs block tables beside a plain reference: each sequence has its tokens in a
// vector, a block's holds are those of a std::shared_ptr, and one array is the pool's memory. It
// predicts every operation's outcome, including refusals, and after each operation it reads every
// sequence back through the tables. Meanwhile the pool shrinks and grows.
#ifndef KVTIER_TESTS_TIER_GPU_BLOCK_TABLE_MODEL_H_
#define KVTIER_TESTS_TIER_GPU_BLOCK_TABLE_MODEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tests/testing/sim_random.h"
#include "tier_gpu/tables/block_table.h"

namespace kvtier::testing {

class BlockTableModel {
 public:
  // Counts of one kind of operation. `refused` counts operations that the tables refused as
  // predicted, or that had nothing to work on.
  struct Tally {
    uint64_t done = 0;
    uint64_t refused = 0;
  };
  struct Operation {
    const char* name;
    uint64_t weight;
    bool (BlockTableModel::*run)();  // Returns true if refused.
  };
  static const std::array<Operation, 21> kOperations;

  explicit BlockTableModel(uint64_t seed) : random_(seed) {}
  // Runs one operation, compares it with the reference and returns which it was. A difference fails
  // the test.
  size_t Run();
  // Checks the tables' own invariants, and every slot's holds.
  void Audit();
  // Gives everything back, and checks that nothing has leaked.
  void End();
  const std::array<Tally, 21>& tallies() const { return tallies_; }
  uint64_t copies() const { return copies_; }  // Number of copies on write.

 private:
  // The pool is small: most operations meet others' blocks, and the pool is full half of the time.
  static constexpr uint32_t kSlots = 48;
  static constexpr size_t kTokens = 4;  // Number of tokens in a block.
  static constexpr size_t kMaxSequences = 20;
  static constexpr size_t kMaxCached = 12;
  static constexpr size_t kMaxLane = 4;
  static constexpr uint32_t kWorkers = 3;

  // Step in which each worker last gave up a slot.
  using Steps = std::array<uint64_t, kWorkers>;
  struct Block {
    explicit Block(BlockTableModel* model) : model(model) {}
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    BlockTableModel* const model;
    SlotRef slot;
    Steps released{};
    bool sealed = false;
    std::vector<uint64_t> tokens;  // Tokens of a sealed block.
  };
  using BlockPtr = std::shared_ptr<Block>;
  struct Sequence {
    SequenceId id{};
    PoolWorker worker{};
    int32_t priority = 0;
    uint64_t started = 0;
    bool swapped_out = false;
    std::vector<uint64_t> tokens;
    std::vector<BlockPtr> blocks;  // Null where swapped out.
    // Tokens of blocks that were copied out, by block.
    std::map<uint32_t, std::vector<uint64_t>> saved;
  };

  void Died(const Block& block);
  bool Drained(const Steps& released) const;
  // Returns how many slots of [begin, end) nobody holds and nobody may still read.
  size_t UnusedSlots(size_t begin, size_t end) const;
  size_t FreeSlots() const { return UnusedSlots(0, open_); }
  size_t LiveSlots() const;
  // Returns a slot that the tables took; checks that nobody held it and nobody could still read it.
  BlockPtr Taken(uint32_t index);
  static size_t At(PoolWorker worker) { return static_cast<size_t>(worker); }
  void GiveUp(PoolWorker worker, BlockPtr* block);
  bool InFlight(PoolWorker worker) const;
  bool Writable(PoolWorker worker, const BlockPtr& block) const;
  // Returns how often sequences that are swapped out hold the block.
  long AwayHolds(const Block* block) const;
  static bool IsAhead(const Sequence& a, const Sequence& b);
  static uint32_t TokensIn(const Sequence& sequence, size_t block);
  static std::span<const uint64_t> TokensOf(const Sequence& sequence, size_t block);
  uint64_t* Memory(uint32_t slot) { return &memory_[size_t{slot} * kTokens]; }
  // Returns a random sequence; null: there is none.
  Sequence* Any();

  bool Create();
  bool Append();
  bool Fork();
  bool Truncate();
  bool Free();
  bool Cache();
  bool Uncache();
  bool Adopt();
  bool SwapOutSome();
  bool SwapOutVictims();
  bool SwapIn();
  bool SetPriority();
  bool Begin();
  bool Retire();
  bool Lane();
  bool UseStale();
  bool Crash();
  bool Close();
  bool Reopen();
  bool Cut();
  bool Grow();
  void SwapOut(const std::vector<SequenceId>& ids);
  void CrashOf(PoolWorker worker);

  void CheckSequence(const Sequence& sequence);
  void Check();

  SimRandom random_;
  SlotTable slots_{{.slots = kSlots, .workers = kWorkers}};
  BlockTable tables_{&slots_, kTokens};

  size_t pool_ = kSlots;  // Number of slots in the pool.
  size_t open_ = kSlots;  // Number of slots that are handed out; the others are closed.
  std::array<Block*, kSlots> owners_{};
  std::array<Steps, kSlots> released_{};  // Last releases of slots without an owner.
  std::array<uint64_t, kSlots * kTokens> memory_{};
  Steps begun_{};
  Steps retired_{};
  uint64_t started_ = 0;
  uint64_t next_token_ = 1;
  uint64_t copies_ = 0;
  uint64_t died_ = 0;
  std::array<SlotRef, 64> stale_{};
  SequenceId freed_{12345};
  std::array<Tally, 21> tallies_{};
  std::vector<Sequence> sequences_;
  std::vector<BlockPtr> cached_;
  std::vector<BlockPtr> lane_;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TIER_GPU_BLOCK_TABLE_MODEL_H_
