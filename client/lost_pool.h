// LostPool is what a client without an agent keeps for the next one: the memory of the GPU
// pool of the agent that is gone, and the pages of all sessions that used it. An agent that
// takes a pool back waits for each of them, also for those of agents that died before they
// saw that a session was over.
#ifndef KVTIER_CLIENT_LOST_POOL_H_
#define KVTIER_CLIENT_LOST_POOL_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "client/gpu_memory.h"
#include "client/pool_offer.h"
#include "client/session.h"

namespace kvtier {

// Sessions whose pages are kept, the last ones. The slots of one before them are unused
// until the process ends, if no agent saw that it was over.
inline constexpr size_t kMaxKeptPages = 16;

// Thread-compatible.
class LostPool {
 public:
  // A session has ended that had the pool. Null, or of an agent that takes no pool back:
  // there is nothing to keep.
  void Keep(std::shared_ptr<const GpuMemory> pool, absl::Time now);
  // Offers what is kept to an agent that asks for it, until `deadline`. True: it has the
  // memory now, and none had since it was lost.
  bool Offer(const SessionOptions& options, absl::Time now, absl::Time deadline);
  // A session has begun: its agent has taken the memory back, or never will.
  void LetGoOfMemory();

 private:
  // False: nobody asks.
  bool OfferPages(const SessionOptions& options, absl::Time deadline);

  std::shared_ptr<const GpuMemory> memory_;  // Null: none was lost, or it is settled.
  absl::Time keep_memory_until_;
  bool handed_ = false;  // To an agent that did not serve yet.
  // Of sessions before the one that had `memory_`, oldest first; all of one memory.
  std::vector<PoolPage> pages_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LOST_POOL_H_
