// SoughtBlocks are blocks that this node seeks at other nodes for one request, with the holders
// that may still be asked for each.
#ifndef KVTIER_AGENT_FLOWS_SOUGHT_BLOCKS_H_
#define KVTIER_AGENT_FLOWS_SOUGHT_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "core/block_key.h"
#include "core/block_lengths.h"
#include "core/node.h"
#include "core/report.h"
#include "core/reuse_hint.h"
#include "tier_host/host_tier.h"

namespace kvtier {

struct SoughtBlocks {
  DomainId domain{};
  DomainId payer{};       // Domain whose share of the streams they take.
  uint64_t erasures = 0;  // Erasures of the domain when they were asked for.
  SpaceDigest space;
  BlockLengths lengths;  // Lengths that blocks of the space may have.
  absl::Time deadline;
  ReuseHint hint;  // Hint of the request that asks for them.
  std::vector<BlockKey> keys;
  LocateReply holders;        // Holders of each key that may still be asked for it.
  std::vector<NodeId> tried;  // Nodes that were asked and did not bring the blocks.
  // Whether the coordinator named as many holders of a block as fit into its answer, so that there
  // may be others.
  bool may_have_others = false;

  // Notes whether the coordinator's answer may have left out holders.
  void NoteAnswer(const LocateReply& answer);
  // Adds holders that are not known yet and were not tried; returns whether there is one. REQUIRES:
  // `answer` is about these keys.
  bool AddHolders(const LocateReply& answer);
  // Forgets the keys that nobody holds.
  void DropUnheld();
  // Forgets the node as a holder of block `index`.
  void DropHolder(size_t index, const NodeId& node);
  // Removes the first `count` blocks.
  void RemoveFront(size_t count);
  // Returns the same without blocks.
  SoughtBlocks Empty() const;
  // Returns the part that has blocks [first, first + count).
  SoughtBlocks Part(size_t first, size_t count) const;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_SOUGHT_BLOCKS_H_
