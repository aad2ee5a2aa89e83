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

// A space of one client, for as long as the client lives, across reconnections.
enum class SpaceHandle : uint32_t {};

struct KeySequence {
  SpaceHandle space{};
  std::span<const EngineKey> keys;    // A run's are in prefix order. Read during the call only.
  std::optional<EngineKey> parent{};  // Key of the block before a run that is reserved.
  // A set has no order: holes are allowed, and no block has a parent.
  bool is_set = false;
  // Most tokens that calls look up or bring: only as many leading keys are used as hold no more.
  // Calls that do neither ignore it. Absent: no limit.
  std::optional<uint64_t> max_tokens{};
  // True: no block of this request is to be stored, so a reserve gives its keys no slot and does
  // not ask the agent about them. Calls that look up or bring blocks ignore it.
  bool no_store = false;
  // Bytes of the block of each key, 1 to the space's block_bytes: where it is reserved in a space
  // with any_length. Empty in other spaces; calls that reserve nothing ignore it. Read during the
  // call only.
  std::span<const uint64_t> lengths{};
  // Hint of the engine about the next use of these blocks (ConversationOf() hashes its id of a
  // conversation). For calls that onboard, prefetch, reserve or advise; the others ignore it.
  ReuseHint hint{};
};

// Where the blocks of one sequence are: a guess, since blocks may leave; only Onboard makes sure.
struct MatchedSequence {
  size_t blocks = 0;        // Blocks known on this node or others; of a run the leading ones.
  size_t local_blocks = 0;  // Those of them that are in this node's tiers.
  // Best tier of each key, of another node's block its tier there; nullopt: nobody has it. Of a
  // run it ends with the last leading block.
  std::vector<std::optional<Tier>> tiers;
};

// Outcome of a Delete or DropPrefix, for the blocks that this node had.
struct DeletedBlocks {
  bool answered = false;  // False: no agent, or not in time; nothing is known.
  size_t deleted = 0;     // Blocks that are in no tier of the node any more.
  size_t held = 0;        // Blocks that stay, leased or being copied; a later call may drop them.
  bool more = false;      // Time ran out before all descendants were looked at: call again.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_KEY_SEQUENCE_H_
