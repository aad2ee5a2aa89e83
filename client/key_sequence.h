// KeySequence is what one request of an engine asks about: the blocks of a prefix, or any set of
// blocks. One call may carry several.
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
  std::span<const EngineKey> keys;    // Of a run in prefix order. The caller's, for the call only.
  std::optional<EngineKey> parent{};  // Of a run that is reserved: the block before it.
  // A set has no order: holes are allowed, and no block has a parent.
  bool is_set = false;
  // At most so many tokens are taken: of the keys, as many leading ones as hold no more. For calls
  // that look blocks up or bring them; the others take no notice. Absent: all of them.
  std::optional<uint64_t> max_tokens{};
  // Nothing of this request is to be kept: what reserves finds no slot for its keys, and asks the
  // agent nothing about them. Lookups and loads of what others have stored take no notice.
  bool no_store = false;
  // Bytes of the block of each key, 1 to the space's block_bytes: where it is reserved in a space
  // with any_length. Empty in other spaces; calls that reserve nothing take no notice. The
  // caller's, for the call only.
  std::span<const uint64_t> lengths{};
  // Hint of the engine about the next use of these blocks (ConversationOf() hashes its id of a
  // conversation). For calls that onboard, prefetch, reserve or advise; the others take no notice.
  ReuseHint hint{};
};

// Where the blocks of one sequence are. A guess, which Onboard turns into a promise.
struct MatchedSequence {
  size_t blocks = 0;        // Blocks that are known, other nodes' too; of a run the leading ones.
  size_t local_blocks = 0;  // The same, in this node's tiers.
  // Best tier of each key, of another node's block its tier there; nullopt: nobody has it. Of a
  // run it ends with the last leading block.
  std::vector<std::optional<Tier>> tiers;
};

// What became of blocks that were to be deleted and that this node had.
struct DeletedBlocks {
  bool answered = false;  // False: no agent, or not in time; nothing is known.
  size_t deleted = 0;     // In no tier of the node any more.
  size_t held = 0;        // Leased or being copied: they stay, and a later call may drop them.
  bool more = false;      // Not all that descends was looked at in time: ask again.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_KEY_SEQUENCE_H_
