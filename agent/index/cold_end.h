// ColdEnd knows which blocks of host memory could leave it now without a loss: those that
// were offered to the disk since they were last used, written or refused. It says which
// one to offer next, so that the blocks that will leave first are ready before somebody
// needs their room: an eviction never waits for a disk.
//
// It follows the order in which the Evictor takes blocks: the coldest without a child
// there, of the wanted domain and slot size. Blocks of each domain and slot size are a
// class of their own, because others make room for them only by a whole slab (HostOrder). In
// its class, the ready ones are those that leave first: a block that gets a child leaves
// after the child, and waits behind it again, without being offered twice; when blocks left
// out of turn, with their slab, all that are ready wait again, as they do.
//
// Pure bookkeeping: no I/O, no clock, no writes. Executor thread only. Invariants, checked
// by Audit(): a member is either waiting or ready; what is ready was offered; the sums are
// of the members.
#ifndef KVTIER_AGENT_INDEX_COLD_END_H_
#define KVTIER_AGENT_INDEX_COLD_END_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "agent/index/block_index.h"
#include "core/lru_leaves.h"
#include "tier_host/host_tier.h"

namespace kvtier {

// Of a class's bytes, this part is kept ready or free, and at least one slot. 64 GiB keep
// 4 GiB ready: what a drive of 2 GB/s takes in two seconds, while puts may come faster.
// More would write what is still hot, and that is what offering at eviction avoids.
inline constexpr uint64_t kReadyDivisor = 16;

class ColdEnd {
 public:
  // Does not own.
  explicit ColdEnd(const HostTier* host) : host_(host) {}

  // The block came into host memory, as the most recent. REQUIRES: it is no member.
  void Entered(const HostBlock& block);
  // It was used there: as BlockIndex::Touch(), in the same order. Ignores strangers.
  void Used(const HostBlock& block);
  // It left host memory; true: unoffered since it was last used. REQUIRES: a member.
  bool Left(const BlockKey& key);

  // The block to offer next, ready from now on; nullopt: enough is ready or free.
  std::optional<BlockKey> TakeNext();

  void Audit() const;

 private:
  struct ClassId {
    DomainId domain{};
    uint64_t slot_bytes = 0;
    friend auto operator<=>(const ClassId&, const ClassId&) = default;
  };
  struct Class {
    LruLeaves waiting;
    absl::btree_set<BlockKey> ready;
    bool out_of_turn = false;  // One of the waiting left.
  };
  struct Member {
    ClassId of;
    std::optional<BlockKey> parent;
    bool ready = false;
    bool offered = false;  // Since its last use.
    uint64_t tick = 0;     // When ready: its place among the waiting.
  };
  // `member` is unoffered and the most recent of the waiting.
  void Wait(const BlockKey& key, Member& member);
  // The ready among `parent` and its parents wait where they stood: a child of theirs does.
  void WaitBehindChild(std::optional<BlockKey> parent, const ClassId& of);
  // The ready wait where they stood.
  void WaitAgain(Class& of);
  // Ready or free bytes as a share of what is wanted; 1 or more: enough.
  double Fullness(const ClassId& id, const Class& of) const;

  const HostTier* const host_;        // Not owned.
  std::map<ClassId, Class> classes_;  // None is empty.
  absl::flat_hash_map<BlockKey, Member> members_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_COLD_END_H_
