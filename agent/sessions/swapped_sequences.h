// SwappedSequences knows which sequences the workers' sessions swapped out of the GPU pools, and
// holds the host memory of their blocks. These blocks are in no index: nobody finds them, nothing
// evicts or moves them, and no disk gets them. A sequence belongs to its session alone, and ends
// with it.
//
// SwappedSequences copies nothing (agent/flows/swap.h). A sequence whose bytes are on their way
// stays in the table until they have arrived, even when its session ends or drops it meanwhile.
//
// Executor thread only. Bounded: kMaxSwappedPerSession, kMaxSwappedSequences, kMaxSwappedBlocks,
// and a quota of bytes. Invariant, checked by Audit(): what a domain and a session use is what
// their sequences have.
#ifndef KVTIER_AGENT_SESSIONS_SWAPPED_SEQUENCES_H_
#define KVTIER_AGENT_SESSIONS_SWAPPED_SEQUENCES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/block_run.h"
#include "agent/gpu/gpu_tier.h"
#include "core/checksum.h"
#include "tier_host/host_tier.h"

namespace kvtier {

// Number of a swapped sequence on this node, from 1 on, never used again: the sequence that was
// swapped out first has the lower number.
enum class SwapId : uint64_t {};

// SwappedBlock is one block of a swapped sequence.
struct SwappedBlock {
  HostSlot slot;
  PayloadSum sum;  // Sum of the block as it went out.
};

// LeavingSequence describes a sequence that is being swapped out.
struct LeavingSequence {
  SessionId session{};
  DomainId domain{};
  GpuTier* gpu = nullptr;  // GPU that the blocks come from and go back to; not owned.
  int32_t priority = 0;
  uint64_t block_length = 0;  // Length of every block, in bytes.
  uint64_t blocks = 0;
  uint64_t slot_bytes = 0;  // Host memory of each block.
};

// ReturningSequence is a sequence that is being swapped in.
struct ReturningSequence {
  LeavingSequence of;
  std::vector<SwappedBlock> blocks;
};

class SwappedSequences {
 public:
  // Amounts that a domain has swapped out.
  struct Use {
    uint64_t sequences = 0;
    uint64_t blocks = 0;
    uint64_t bytes = 0;  // Bytes of their slots.
    friend bool operator==(const Use&, const Use&) = default;
  };
  // Sequences of a domain since the start.
  struct Counts {
    uint64_t swapped_out = 0;
    uint64_t swapped_in = 0;
    uint64_t refused = 0;  // Found no room.
    // Sequences dropped by their worker, with their session, or because of damage.
    uint64_t dropped = 0;
  };

  // Books room for the sequence, until GiveUp() or as long as it is out. Errors:
  // kResourceExhausted, naming the limit; `quota_bytes` is the domain's.
  absl::StatusOr<SwapId> Begin(const LeavingSequence& leaving, uint64_t quota_bytes);
  // Gives up a sequence that does not go out.
  void GiveUp(SwapId id);
  // Notes that the sequence is out. Returns false if its session ended meanwhile, so that it is
  // gone. REQUIRES: one block for each that was booked.
  bool Complete(SwapId id, std::vector<SwappedBlock> blocks);
  // Counts a sequence of the domain that found no room.
  void CountRefused(DomainId domain) { ++domains_[domain].counts.refused; }

  // Hands over the blocks of a sequence that is to come back. One of the next three functions ends
  // the return. Errors: kNotFound, the session has no such sequence, or the sequence is being
  // copied.
  absl::StatusOr<ReturningSequence> BeginReturn(SessionId session, SwapId id);
  // Notes that the sequence did not come back and stays out. Drops it if its session ended or
  // dropped it meanwhile.
  void StayOut(SwapId id, std::vector<SwappedBlock> blocks);
  // Notes that the sequence is back. Returns false if its session ended or dropped it meanwhile.
  bool EndReturn(SwapId id);
  // Drops a sequence that is lost.
  void Lose(SwapId id);

  // Drops sequences of the session; unknown ids are ignored.
  void Drop(SessionId session, std::span<const SwapId> ids);
  // Drops all sequences of the session.
  void EndSession(SessionId session);

  Use UseOf(DomainId domain) const;
  Counts CountsOf(DomainId domain) const;
  // Returns the number of sequences, including those on their way.
  size_t size() const { return sequences_.size(); }
  void Audit() const;

 private:
  struct Sequence {
    LeavingSequence of;
    bool is_moving = true;  // Whether it is on its way out or back, so that a flow has its blocks.
    bool is_wanted = true;  // False if it was dropped while it moved.
    std::vector<SwappedBlock> blocks;
  };
  struct Domain {
    Use use;
    Counts counts;
  };
  using Sequences = absl::btree_map<SwapId, Sequence>;
  // Returns a sequence that is on its way.
  Sequences::iterator Moving(SwapId id);
  Sequences::iterator Erase(Sequences::iterator found);
  // Drops the sequence now, or after its copy. Returns the next sequence.
  Sequences::iterator DropOne(Sequences::iterator found);

  uint64_t numbered_ = 0;  // Ids given so far.
  uint64_t blocks_ = 0;    // Blocks of all domains.
  Sequences sequences_;
  // Number of sequences of each session that has some.
  absl::flat_hash_map<SessionId, uint64_t> of_session_;
  absl::flat_hash_map<DomainId, Domain> domains_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SESSIONS_SWAPPED_SEQUENCES_H_
