// KeptPrefixes knows which blocks of host memory tenants asked this node to keep, and until when: a
// prompt cache with a time to live. A kept block is not evicted until its time is over, its tenant
// or an operator ends the prefix, or the tenant is erased. docs/design/kept_prefixes.md.
//
// A kept prefix belongs to its domain, not to a session. It holds no address: a block that is kept
// and not pinned may be moved. A block that leaves nevertheless (it is damaged, or dropped) is
// missing from its prefixes, and is kept again when one of them is renewed.
//
// Bounded by the limits of agent/limits.h: a block counts once for each prefix that it is of, and
// its bytes once for all prefixes of the domain.
//
// Executor thread only. Memory: 32 bytes a block, and 4 to 8 for each prefix that has it.
// Invariants, checked by Audit(): a block is kept in the index exactly as long as a prefix has it
// and it is there; the use of a domain is that of its prefixes. (A quota of bytes may shrink below
// what is kept already: Sweep() then ends prefixes.)
#ifndef KVTIER_AGENT_SESSIONS_KEPT_PREFIXES_H_
#define KVTIER_AGENT_SESSIONS_KEPT_PREFIXES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "agent/index/block_changes.h"
#include "agent/index/block_index.h"
#include "agent/sessions/deadline_slots.h"
#include "core/block_key.h"
#include "core/checksum.h"
#include "core/keep_limit.h"
#include "core/steady_vector.h"
#include "tier_host/host_shares.h"
#include "tier_host/host_tier.h"

namespace kvtier {

// Number of a kept prefix among those of its domain, from 1 on, never used again; 0: none.
enum class KeptId : uint64_t {};

class KeptPrefixes final : public BlockFollower {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    BlockIndex* index = nullptr;
    const HostTier* host = nullptr;
    const HostShares* shares = nullptr;
    BlockChanges* changes = nullptr;
  };
  // Amounts that a domain keeps, or may keep.
  struct Use {
    uint64_t prefixes = 0;
    uint64_t blocks = 0;  // Blocks, once for each prefix, with those that have left.
    uint64_t bytes = 0;   // Bytes of the slots of blocks that are there, each once.
    friend bool operator==(const Use&, const Use&) = default;
  };
  // Listed describes one prefix to its tenant and to operators.
  struct Listed {
    KeptId id{};
    uint64_t blocks = 0;  // Blocks that are there.
    uint64_t bytes = 0;   // Bytes of their slots.
    absl::Time deadline;
  };
  // Names a prefix inside the agent.
  enum class Handle : uint64_t {};
  struct Begun {
    Handle handle{};  // Handle of the prefix; 0: `limit` says why there is none.
    KeepLimit limit = KeepLimit::kNone;
    // Whether another call is filling the prefix, so that nothing was changed.
    bool is_being_filled = false;
  };

  explicit KeptPrefixes(const Parts& parts) : parts_(parts) { parts.changes->Follow(this); }

  // Begins to fill the domain's prefix of that identity, until Filled(). A prefix that exists is
  // renewed: its deadline is the later one of both. Otherwise a new one is made.
  Begun Begin(DomainId domain, const PayloadSum& identity, absl::Time deadline);
  bool Has(Handle handle) const { return prefixes_.Find(handle) != nullptr; }
  // REQUIRES of the functions from here to Erase(): Has().
  KeptId IdOf(Handle handle) const { return prefixes_.Find(handle)->id; }
  absl::Time DeadlineOf(Handle handle) const { return prefixes_.DeadlineOf(handle); }
  // Adds one block to the prefix, which keeps it. Any result but kNone is the limit because of
  // which the block was not added. REQUIRES: the block is in the domain's host memory.
  KeepLimit Add(Handle handle, const BlockKey& key);
  // Lets go of `limit` blocks of the prefix at most; returns whether it has more.
  bool Shrink(Handle handle, size_t limit);
  // Notes that the prefix is complete. Ends it if it has no block.
  void Filled(Handle handle);
  // Ends the prefix. REQUIRES: it has no blocks.
  void Erase(Handle handle);

  // Returns the domain's prefix of that id; nullopt: there is none, or it is another domain's.
  std::optional<Handle> Find(DomainId domain, KeptId id) const;
  // Returns the domain's prefixes whose time is not over at `now`, by id. O(blocks of them).
  std::vector<Listed> List(DomainId domain, absl::Time now) const;
  // Keeps the block no longer, whichever prefixes have it.
  void LetGoOf(const BlockKey& key);
  // Ends the prefixes of the domain of which no block is left. O(blocks of the domain's prefixes).
  void EndEmpty(DomainId domain);
  // Ends prefixes of the domain, and lets go of `limit` blocks at most. Returns whether some are
  // left.
  bool EndSome(DomainId domain, size_t limit);
  // Ends prefixes whose deadline lies before `now`, and of each domain that keeps more bytes than
  // its quota those with the earliest deadlines, until the rest fits. Lets go of
  // kEndedPerSweep blocks at most.
  void Sweep(absl::Time now);

  // Counts a request for a prefix of the domain that met a limit.
  void NoteRefused(DomainId domain) { ++domains_[domain].refused; }
  // Returns how many were counted.
  uint64_t RefusedOf(DomainId domain) const;
  Use UseOf(DomainId domain) const;
  Use QuotaOf(DomainId domain) const;
  void OnChange(const BlockChange& change) override;
  void Audit() const;

 private:
  // Block is one block that is kept, or one that has left while it still belongs to a prefix.
  struct Block {
    BlockKey key;
    uint64_t bytes = 0;  // Size of its slot; 0: it has left.
    uint32_t uses = 0;   // Number of prefixes that it belongs to.
    uint32_t next = 0;   // Next free entry, if this one is free.
  };
  static_assert(sizeof(Block) == 32);
  struct Prefix {
    DomainId domain{};
    KeptId id{};
    PayloadSum identity;
    bool is_being_filled = false;
    std::vector<KeptNumber> blocks;
  };
  struct Domain {
    uint64_t numbered = 0;  // Ids given so far.
    absl::btree_map<KeptId, Handle> prefixes;
    Use use;
    uint64_t refused = 0;  // Requests that met a limit.
  };
  Block& At(KeptNumber number) { return blocks_[static_cast<uint32_t>(number)]; }
  const Block& At(KeptNumber number) const { return blocks_[static_cast<uint32_t>(number)]; }
  // Returns the prefix of the domain that ends first; nullopt: all are being filled.
  std::optional<Handle> NextToEnd(const Domain& of) const;
  // Lets go of the blocks of the prefix, `*left` of them at most, and subtracts their number from
  // `*left`. Ends the prefix if no block is left, and returns true then.
  bool End(Handle handle, size_t* left);
  KeptNumber TakeNumber(const HostBlock& block);
  void LetGo(DomainId domain, KeptNumber number);
  void NoteGone(DomainId domain, KeptNumber number);

  const Parts parts_;
  DeadlineSlots<Handle, Prefix> prefixes_;
  absl::flat_hash_map<DomainId, Domain> domains_;
  SteadyVector<Block> blocks_;  // Blocks by number; the first entry is unused.
  uint32_t free_ = 0;           // The first free number; 0: none.
  size_t kept_ = 0;             // Blocks of all prefixes together.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SESSIONS_KEPT_PREFIXES_H_
