// KeySequence names the blocks that one request of an engine asks about: the blocks of a prefix, or
// any set of blocks. One call may carry several.
#ifndef KVTIER_CLIENT_KEY_SEQUENCE_H_
#define KVTIER_CLIENT_KEY_SEQUENCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/block_key.h"
#include "core/reuse_hint.h"
#include "core/tier.h"

namespace kvtier {

// SpaceHandle names a space of one client for as long as the client lives, across reconnections.
enum class SpaceHandle : uint32_t {};

struct KeySequence {
  SpaceHandle space{};
  std::span<const EngineKey> keys;    // A run's are in prefix order. Read during the call only.
  std::optional<EngineKey> parent{};  // Key of the block before a run that is reserved.
  // A set has no order: holes are allowed, and no block has a parent.
  bool is_set = false;
  // Maximum number of tokens that a call looks up or brings: it uses only the leading keys that
  // hold no more tokens than that. Calls that do neither ignore the field. Absent: no limit.
  std::optional<uint64_t> max_tokens{};
  // Whether no block of this request is to be stored. A reserve then gives its keys no slot and
  // does not ask the agent about them. Calls that look up or bring blocks ignore the field.
  bool no_store = false;
  // Bytes of the block of each key, 1 to the space's block_bytes, for a reserve in a space with
  // any_length. Empty in other spaces; calls that reserve nothing ignore the field. Read during the
  // call only.
  std::span<const uint64_t> lengths{};
  // Hint of the engine about the next use of these blocks (ConversationOf() hashes its id of a
  // conversation). Calls that onboard, prefetch, reserve or advise use it; the others ignore it.
  ReuseHint hint{};
};

// MatchedSequence tells where the blocks of one sequence are. It is a guess, since blocks may
// leave; only Onboard makes sure.
struct MatchedSequence {
  size_t blocks = 0;        // Blocks known on this node or others; of a run the leading ones.
  size_t local_blocks = 0;  // Number of these blocks that are in this node's tiers.
  // Best tier of each key's block, on this node or on the node that has it; nullopt: no node has
  // the block. For a run the list ends with the last leading block.
  std::vector<std::optional<Tier>> tiers;
};

// Outcome of a Delete or DropPrefix, for the blocks that this node had.
struct DeletedBlocks {
  // False without an agent, or without its answer in time: nothing is known.
  bool answered = false;
  size_t deleted = 0;  // Blocks that are in no tier of the node any more.
  size_t held = 0;     // Blocks that stay, leased or being copied; a later call may drop them.
  bool more = false;   // Time ran out before all descendants were looked at: call again.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_KEY_SEQUENCE_H_
