// MemoryMover moves slabs of host memory to the domains that should have them (HostShares). A slab
// that is to leave gets no new slots, and its blocks get no new leases. Blocks that nothing holds
// are dropped, and kept blocks are copied to other slots of their domain. When the last lease has
// ended, the disks unpin the memory, and it is returned to the system. Then another slab is filled,
// pinned for the disks and handed to the other domain. So no page is ever part of two domains'
// memory. If the node has too many slabs, they leave it in the same way (HostResizer).
//
// A slab moves in some 0.2 s, and in no more than kSlabLeaveTimeout where leases and reservations
// hold it; kMaxSlabMoves are in progress at a time.
//
// Executor thread only.
#ifndef KVTIER_AGENT_FLOWS_MEMORY_MOVER_H_
#define KVTIER_AGENT_FLOWS_MEMORY_MOVER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/disk/node_disks.h"
#include "agent/index/block_index.h"
#include "agent/index/evict.h"
#include "core/block_key.h"
#include "core/byte_threads.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/waits.h"
#include "tier_host/host_shares.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class MemoryMover {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    Executor* executor = nullptr;
    ByteThreads* memory = nullptr;        // Threads that fill and empty memory, which takes long.
    ByteThreads* byte_threads = nullptr;  // Threads that copy blocks.
    TaskScope* scope = nullptr;
    Waits* waits = nullptr;
    HostTier* host = nullptr;
    HostShares* shares = nullptr;
    BlockIndex* index = nullptr;
    Evictor* evictor = nullptr;
    NodeDisks* disks = nullptr;
    // Returns how much memory the system has left for the agent, in bytes; any thread. Null: it is
    // not asked, and filling fails, or the system kills the agent, when there is too little.
    uint64_t (*free_memory)() = nullptr;
  };
  explicit MemoryMover(const Parts& parts) : parts_(parts) {}

  // Moves slabs until the waits end.
  Task<void> Run();
  // Fills `slabs` slabs of a new domain, to which no slab moves meanwhile. REQUIRES: they are
  // absent.
  Task<void> FillNew(DomainId domain, uint64_t slabs);
  // Takes all the memory that domains together may have, wanted or not, from now on until Rest().
  // Asks the system at once, even if it had no memory a moment ago.
  void FillAll();
  void Rest() { fills_all_ = false; }
  // Returns why memory was not taken at the last failure since FillAll(); empty: none failed.
  const std::string& failure() const { return failure_; }
  // Gives all memory of a domain back to the system, and then its arena, once nothing fills or
  // empties it any more (HostTier::DropDomain()). REQUIRES: none of its slots is used, nor will be.
  Task<void> EndDomain(DomainId domain);
  struct Figures {
    uint64_t moved = 0;      // Slabs that a domain got.
    uint64_t copied = 0;     // Blocks that were worth more than others, or were kept.
    uint64_t timed_out = 0;  // Slabs that were held for too long, and stayed.
    // Bytes of memory that workers took by touching what is not their domain's (any more), and
    // that were given back.
    uint64_t stray_bytes = 0;
  };
  const Figures& figures() const { return figures_; }
  size_t running() const { return running_; }  // Slabs on their way.
  // Returns how many absent slabs of the domain are being filled or emptied.
  size_t SlabsBetween(DomainId domain) const;

 private:
  using Slab = std::pair<DomainId, uint32_t>;
  // Returns the move that is to begin now; nullopt: none is.
  std::optional<SlabMove> NextMove() const;
  Task<void> Carry(SlabMove move);
  // Takes a slab from the domain of the move. False: its slabs are held.
  Task<bool> TakeFrom(SlabMove move);
  // Gives the memory of a closed slab without used slots back to the system.
  Task<void> Remove(Slab slab);
  // Waits until no slot of a closed slab is used. Returns false if some still are after
  // kSlabLeaveTimeout, or if the slab was to leave the node and may stay after all.
  Task<bool> Drain(Slab slab, SlabMove move);
  // Drops the blocks of the domain that leave first, for `cause`, and copies blocks of the slab to
  // the slots outside of it that become free so. Ends when all blocks left in the slab are held, or
  // no other block may leave. Copies each block of the slab once at most.
  Task<void> MoveWorthier(Slab slab, DomainId cause);
  // Copies the blocks of the slab that are kept, and that nobody reads, to other slots.
  Task<void> MoveKept(Slab slab);
  // Returns the room that the block has in the slab; nullopt: it is not there, or is read.
  std::optional<BlockRoom> RoomToMove(const BlockKey& key, Slab slab) const;
  // Copies the block to `slot`, where it then lies; drops it if its bytes are not those that were
  // committed. Leaves it where it is if somebody reads it by then. REQUIRES: it is in host memory.
  Task<void> MoveOne(BlockKey key, HostSlot slot);
  // Says whether the system has memory for a slab. kIsThere: a tenant has just given a slab back.
  // kIsUnknown: the system is asked first.
  enum class Room : uint8_t { kIsThere, kIsUnknown };
  Task<void> GiveTo(DomainId domain, Room room);
  // Fills an absent slab. Errors: kResourceExhausted, the system has no memory for it.
  Task<absl::Status> Fill(Slab slab, Room room);
  // Tells the parts that depend on it how much memory the domain has.
  void TellCapacity(DomainId domain);
  // Gives back to the system the pages of absent slabs, which a worker's stray read or write may
  // have filled.
  Task<void> ReturnStrays();
  std::optional<uint32_t> AbsentSlabOf(DomainId domain) const;

  const Parts parts_;
  Figures figures_;
  size_t running_ = 0;  // Number of moves in progress.
  // Absent slabs whose memory is being filled or emptied.
  std::set<Slab> between_;
  absl::Time next_look_ = absl::InfinitePast();  // Time of the next ReturnStrays().
  absl::Time no_memory_until_ = absl::InfinitePast();
  bool fills_all_ = false;
  std::string failure_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_MEMORY_MOVER_H_
