// BlockRun is what the flows work on: blocks of one session that are asked for together.
#ifndef KVTIER_AGENT_BLOCK_RUN_H_
#define KVTIER_AGENT_BLOCK_RUN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/block_key.h"
#include "core/block_lengths.h"
#include "core/check.h"
#include "core/reuse_hint.h"
#include "core/space.h"
#include "tier_host/host_tier.h"

namespace kvtier {

enum class SessionId : uint64_t {};

using SessionToken = std::array<uint8_t, 16>;

// BlockRun holds the names of the blocks of a run or a set, which do not change. A run is a prefix,
// and blocks after a hole in it are of no use; a set has no order.
struct BlockRun {
  SessionId session{};
  DomainId domain{};  // Domain that the blocks lie in.
  // Domain of the member that asks for blocks of a share group; nullopt: they are the tenant's own.
  std::optional<DomainId> member{};
  SpaceDigest space;
  BlockLengths lengths;            // Lengths that blocks of the space may have.
  std::optional<BlockKey> parent;  // Block before keys[0], when the caller named one.
  bool is_set = false;             // Holes are allowed, and no block has a parent.
  std::vector<BlockKey> keys;      // Keys; those of a run are in prefix order.
  // Length in bytes of the block of each key, in a run that is to be reserved where lengths.any is
  // set; else empty.
  std::vector<uint64_t> key_lengths{};
  ReuseHint hint{};  // Hint of the engine, for all blocks of the run.

  // Returns the domain of the tenant that the run's leases, reservations, loads and turns are
  // charged to.
  DomainId payer() const { return member.value_or(domain); }
  // Returns the length in bytes of the block of keys[i]. REQUIRES: the run is to be reserved.
  uint64_t LengthOf(size_t i) const {
    if (!lengths.any) return lengths.longest;
    KVT_CHECK(i < key_lengths.size());
    return key_lengths[i];
  }
  // Returns the key of the block before keys[i].
  std::optional<BlockKey> ParentOf(size_t i) const {
    if (is_set) return std::nullopt;
    return i == 0 ? parent : std::optional<BlockKey>(keys[i - 1]);
  }
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_BLOCK_RUN_H_
