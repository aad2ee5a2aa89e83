// BlockDeleter drops blocks that their own tenant or an operator names from every tier of this
// node, alone or with all that descends from them: what is of no use any more, or must not be kept.
// Other nodes learn of it by the usual reports, and keep copies of their own.
//
// Executor thread only. Long calls give way to all others.
#ifndef KVTIER_AGENT_FLOWS_DELETE_BLOCKS_H_
#define KVTIER_AGENT_FLOWS_DELETE_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "agent/block_run.h"
#include "agent/gpu/node_gpus.h"
#include "agent/index/block_index.h"
#include "agent/index/evict.h"
#include "agent/sessions/fair_turns.h"
#include "agent/sessions/kept_prefixes.h"
#include "core/block_key.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/waits.h"
#include "tier_disk/disk_set.h"

namespace kvtier {

// Result of a deletion: how many of the named blocks that this node had, and of their descendants
// if these were to go, too, are gone or stay.
struct Deleted {
  size_t blocks = 0;  // Number of blocks that are in no tier any more.
  // Leased, being copied, or not erased by their disk: they stay in some tier, and are found again.
  size_t held = 0;
  bool is_whole = true;  // False if time ran out or too much is held: more blocks are left.
};

enum class DeleteScope : uint8_t {
  kNamed,
  kDescendants,  // The named blocks and all that descends from them.
};

class BlockDeleter {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    Executor* executor = nullptr;
    FairTurns* turns = nullptr;
    Waits* waits = nullptr;
    BlockIndex* index = nullptr;
    Evictor* evictor = nullptr;
    KeptPrefixes* kept = nullptr;
    NodeGpus* gpus = nullptr;
    DiskSet* disks = nullptr;  // nullptr: no disk tier.
  };
  explicit BlockDeleter(const Parts& parts) : parts_(parts) {}

  // Drops the blocks of `runs`. Ends when the disks have forgotten them for ever; with
  // kDescendants, by kDropTimeout. No kept prefix has the blocks any more, and a kept prefix
  // without blocks ends. REQUIRES: the runs are of one domain.
  Task<Deleted> Delete(std::vector<BlockRun> runs, DeleteScope scope);

 private:
  struct Dropping;  // State of one call of Delete().
  // Lets other calls take turns, a few hundred blocks after the last time.
  Task<void> GiveWay(DomainId payer);
  // Waits until the domain has no drop of descendants in progress. Returns false at `deadline`.
  Task<bool> AwaitTurn(DomainId domain, absl::Time deadline);
  // Drops all that descends from `root`, then `root`. Returns false at the deadline, or if too many
  // blocks are held.
  Task<bool> DropFamily(BlockKey root, Dropping* dropping);
  // Drops the block from all tiers, and counts it. Returns whether no tier has it now.
  Task<bool> DropOne(BlockKey key, Dropping* dropping);
  void DropFromMemory(const BlockKey& key);
  // Returns a child of the block that is not passed over; nullopt: it has none.
  std::optional<BlockKey> ChildOf(const BlockKey& key, Dropping* dropping) const;

  const Parts parts_;
  // Events of the drops of descendants in progress, by domain; an event is set when the drop has
  // ended.
  absl::flat_hash_map<DomainId, std::shared_ptr<Event>> dropping_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_DELETE_BLOCKS_H_
