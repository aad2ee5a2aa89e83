// HostProver checks again whether the bytes of blocks in host memory, which workers map, still
// match their sums. A block that changed is condemned (BlockIndex::Condemn): the next asker has it
// from a disk or a peer, or computes it, and the next put replaces it, also while leases of it
// last.
//
// Executor thread only. It proves one suspected block at a time, so that a worker that reports
// false damage costs others little.
#ifndef KVTIER_AGENT_INDEX_HOST_PROVER_H_
#define KVTIER_AGENT_INDEX_HOST_PROVER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "agent/index/block_index.h"
#include "agent/index/pin.h"
#include "core/block_key.h"
#include "core/byte_threads.h"
#include "core/checksum.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/tier_stats.h"

namespace kvtier {

class HostProver {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    ByteThreads* byte_threads = nullptr;
    TaskScope* scope = nullptr;
    BlockIndex* index = nullptr;
    TierStats* stats = nullptr;  // Statistics of host memory.
  };
  // Proven counts the blocks that were to be proven and that host memory had.
  struct Proven {
    uint64_t blocks = 0;
    uint64_t bytes = 0;
    uint64_t altered = 0;  // Number of blocks that had changed.
    uint64_t news = 0;     // Altered ones that nobody had found before.
  };
  explicit HostProver(const Parts& parts) : parts_(parts) {}

  // Proves the block now. Returns false if the block is in host memory and is not what its sum
  // says; it is condemned then.
  Task<bool> Prove(BlockKey key);
  // Proves several blocks at once.
  Task<Proven> ProveAll(std::vector<BlockKey> keys);
  // Proves the block soon, after blocks that were suspected before it. Ignores the call if the
  // block waits already, or kMaxSuspects blocks do.
  void Suspect(const BlockKey& key);
  // Counts the pinned block as altered, and takes it out of host memory at once. Returns false if
  // it was condemned before.
  bool Condemn(const Pin& pin);

 private:
  // A block and the bytes of it that are looked at, pinned.
  struct Subject {
    Pin pin;
    std::span<const std::byte> payload;
    PayloadSum expected;
    bool whole = false;  // The bytes are what the sum says.
  };
  std::vector<Subject> SubjectsOf(std::span<const BlockKey> keys);
  Task<void> ProveSuspects();

  const Parts parts_;
  std::deque<BlockKey> suspects_;  // The first is being proven.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_HOST_PROVER_H_
