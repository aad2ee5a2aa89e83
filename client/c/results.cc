#include "client/c/results.h"

#include <memory>
#include <utility>

namespace kvtier::c {
static_assert(static_cast<int>(Tier::kGpu) == KVTIER_GPU);
static_assert(static_cast<int>(Tier::kHost) == KVTIER_HOST);
static_assert(static_cast<int>(Tier::kDisk) == KVTIER_DISK);

void FillMatched(const MatchedSequence& from, size_t keys, kvtier_matched* to) {
  to->blocks = from.blocks;
  to->local_blocks = from.local_blocks;
  if (to->tiers == nullptr) return;
  for (size_t i = 0; i < keys; ++i) {
    const bool known = i < from.tiers.size() && from.tiers[i].has_value();
    to->tiers[i] = known ? static_cast<uint8_t>(*from.tiers[i]) : uint8_t{KVTIER_NOT_HERE};
  }
}

int64_t FillHits(std::vector<OnboardedBlocks> from, kvtier_hit** to) {
  std::vector<std::unique_ptr<kvtier_hit>> made;  // If memory runs out, none is handed over.
  int64_t blocks = 0;
  for (OnboardedBlocks& sequence : from) {
    blocks += static_cast<int64_t>(sequence.size());
    made.push_back(std::make_unique<kvtier_hit>(kvtier_hit{std::move(sequence)}));
  }
  for (size_t i = 0; i < made.size(); ++i) to[i] = made[i].release();
  return blocks;
}

kvtier_hit* NewHit(OnboardedBlocks blocks) {
  return blocks.empty() ? nullptr : new kvtier_hit{std::move(blocks)};
}

kvtier_put* NewPut(ReservedBlocks blocks) {
  return blocks.reserved() == 0 ? nullptr : new kvtier_put{std::move(blocks)};
}

kvtier_put* NewPutOfEntries(ReservedBlocks blocks) {
  return blocks.answered() ? new kvtier_put{std::move(blocks)} : nullptr;
}

}  // namespace kvtier::c
