#include "agent/flows/delete_blocks.h"

#include "absl/status/status.h"
#include "agent/limits.h"

namespace kvtier {

struct BlockDeleter::Dropping {
  DomainId domain{};
  DomainId payer{};  // Domain whose turns it takes.
  absl::Time deadline;
  Deleted deleted{};
  // Blocks that are held, and the blocks on the path from the root to the current block.
  absl::flat_hash_set<BlockKey> passed_over{};
  size_t work = 0;  // Blocks looked at since the last pause.
};

void BlockDeleter::DropFromMemory(const BlockKey& key) {
  parts_.gpus->Drop(key);
  const BlockIndex& index = *parts_.index;
  if (!index.In(Tier::kHost, key)) return;
  if (index.IsPinned(key)) {
    parts_.kept->LetGoOf(key);
  } else {
    parts_.evictor->DropFromHost(key);
  }
}

Task<bool> BlockDeleter::DropOne(BlockKey key, Dropping* dropping) {
  if (!parts_.index->NearestTier(key).has_value()) co_return true;
  DropFromMemory(key);
  if (parts_.index->In(Tier::kDisk, key)) {
    const absl::Status erased = co_await parts_.disks->Erase(key);
    // A block that a read brought back meanwhile goes as well.
    if (erased.ok()) DropFromMemory(key);
  }
  const bool gone = !parts_.index->NearestTier(key).has_value();
  ++(gone ? dropping->deleted.blocks : dropping->deleted.held);
  co_return gone;
}

std::optional<BlockKey> BlockDeleter::ChildOf(const BlockKey& key, Dropping* dropping) const {
  std::optional<BlockKey> found;
  parts_.index->ForEachChildOf(dropping->domain, key, [&](const BlockKey& child) {
    ++dropping->work;
    if (!dropping->passed_over.contains(child)) found = child;
    return !found.has_value();
  });
  return found;
}

Task<bool> BlockDeleter::DropFamily(BlockKey root, Dropping* dropping) {
  absl::flat_hash_set<BlockKey>& passed_over = dropping->passed_over;
  std::vector<BlockKey> way = {root};
  passed_over.insert(root);
  while (!way.empty()) {
    if (parts_.executor->Now() >= dropping->deadline) co_return false;
    if (passed_over.size() > kMaxDropHeld + way.size()) co_return false;
    const BlockKey key = way.back();
    const std::optional<BlockKey> child = ChildOf(key, dropping);
    if (child.has_value()) {
      if (way.size() == kMaxDropDepth) {
        // Too deep: blocks further down go first, and those above when the walk comes again.
        for (const BlockKey& above : way) passed_over.erase(above);
        way.clear();
      }
      way.push_back(*child);
      passed_over.insert(*child);
    } else {
      ++dropping->work;
      const bool is_gone = co_await DropOne(key, dropping);
      if (is_gone) passed_over.erase(key);
      way.pop_back();
      // The way down to the block was forgotten, so the walk begins at the root again.
      if (way.empty() && key != root) {
        way.push_back(root);
        passed_over.insert(root);
      }
    }
    if (dropping->work < kKeysPerTurn) continue;
    dropping->work = 0;
    co_await GiveWay(dropping->payer);
  }
  co_return true;
}

Task<void> BlockDeleter::GiveWay(DomainId payer) {
  // The tenant's own calls go on meanwhile, too: there may be as many blocks as memory has.
  co_await SleepUntil(parts_.executor, parts_.executor->Now());
  co_await parts_.turns->GiveWay(payer);
}

Task<bool> BlockDeleter::AwaitTurn(DomainId domain, absl::Time deadline) {
  while (true) {
    const auto running = dropping_.find(domain);
    if (running == dropping_.end()) co_return true;
    const std::shared_ptr<Event> ended = running->second;
    if (!co_await parts_.waits->Until(ended.get(), deadline)) co_return false;
  }
}

Task<Deleted> BlockDeleter::Delete(std::vector<BlockRun> runs, DeleteScope scope) {
  Dropping dropping{.domain = runs.front().domain,
                    .payer = runs.front().payer(),
                    .deadline = parts_.executor->Now() + kDropTimeout};
  std::shared_ptr<Event> ended;
  if (scope == DeleteScope::kDescendants) {
    dropping.deleted.is_whole = co_await AwaitTurn(dropping.domain, dropping.deadline);
    if (!dropping.deleted.is_whole) co_return dropping.deleted;
    ended = std::make_shared<Event>(parts_.executor);
    dropping_[dropping.domain] = ended;
  }
  for (const BlockRun& run : runs) {
    // Goes from the end, so that a block is dropped before its parent.
    for (auto key = run.keys.rbegin(); key != run.keys.rend(); ++key) {
      if (scope == DeleteScope::kNamed) {
        co_await DropOne(*key, &dropping);
        if (++dropping.work % kKeysPerTurn == 0) co_await GiveWay(dropping.payer);
      } else if (!dropping.passed_over.contains(*key) && dropping.deleted.is_whole) {
        dropping.deleted.is_whole = co_await DropFamily(*key, &dropping);
      }
    }
  }
  parts_.kept->EndEmpty(dropping.domain);
  if (ended != nullptr) {
    dropping_.erase(dropping.domain);
    ended->Set();
  }
  co_return dropping.deleted;
}

}  // namespace kvtier
