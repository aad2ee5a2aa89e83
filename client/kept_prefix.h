// KeptPrefix names blocks that a node keeps in its host memory for a tenant, for a time to live,
// even when it needs room for other blocks. A kept prefix is no lease: blocks must still be
// onboarded to be read. See docs/design/kept_prefixes.md.
#ifndef KVTIER_CLIENT_KEPT_PREFIX_H_
#define KVTIER_CLIENT_KEPT_PREFIX_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "core/keep_limit.h"
#include "core/miss_reason.h"

namespace kvtier {

struct KeepOptions {
  // Time to live of the blocks in host memory: a second to an hour. The same sequences again renew
  // it; a shorter time takes nothing away.
  absl::Duration ttl = absl::Minutes(5);
  // Longest wait for blocks that only a disk of the node has. Absent: default_timeout.
  std::optional<absl::Duration> timeout{};
};

struct KeptPrefix {
  struct Sequence {
    std::vector<size_t> key_indices;  // Places of the keys whose blocks are kept; a run: 0, 1, ...
    // Reason for which the first missing block did not come.
    MissReason missed = MissReason::kUnreachable;
  };
  // False without an agent, or without its answer in time: nothing is known.
  bool answered = false;
  // Id among the tenant's kept prefixes on the node, while its agent runs; 0: nothing is kept.
  uint64_t id = 0;
  std::vector<Sequence> sequences;  // One entry for each sequence asked.
  // Limit that stopped the node from keeping more of its blocks.
  KeepLimit limit = KeepLimit::kNone;
  absl::Duration ttl_left;
};

// Amounts that a tenant keeps on the node, or may keep.
struct KeptUse {
  uint64_t prefixes = 0;
  uint64_t blocks = 0;  // A block counts once for each prefix that it belongs to.
  uint64_t bytes = 0;   // Bytes of host memory; each block counts once.
};

struct KeptList {
  struct Prefix {
    uint64_t id = 0;
    uint64_t blocks = 0;  // Blocks of it that are in host memory.
    uint64_t bytes = 0;   // Bytes of host memory that they take.
    absl::Duration ttl_left;
  };
  // False without an agent, or without its answer in time: nothing is known.
  bool answered = false;
  std::vector<Prefix> prefixes;  // Kept prefixes by id.
  KeptUse used;
  KeptUse quota;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_KEPT_PREFIX_H_
