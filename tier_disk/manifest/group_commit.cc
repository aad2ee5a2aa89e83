#include "tier_disk/manifest/group_commit.h"

#include <iterator>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "core/kill_point.h"

namespace kvtier {
namespace {

template <typename T>
void Append(std::vector<T> from, std::vector<T>* to) {
  to->insert(to->end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

void MergeBatch(ManifestBatch later, ManifestBatch* batch) {
  if (!later.erases.empty() && !batch->puts.empty()) {
    // A put that is erased later must not be applied after the erase.
    const absl::flat_hash_set<BlockKey> erased(later.erases.begin(), later.erases.end());
    std::erase_if(batch->puts,
                  [&](const DiskEntry& entry) { return erased.contains(entry.block.key); });
  }
  Append(std::move(later.erases), &batch->erases);
  Append(std::move(later.generations), &batch->generations);
  Append(std::move(later.puts), &batch->puts);
  Append(std::move(later.salts), &batch->salts);
}

Task<absl::Status> GroupCommit::Commit(ManifestBatch change) {
  absl::Status status = co_await CommitInGroup(std::move(change));
  if (!status.ok()) disk_->CommitFailed(status);
  co_return status;
}

Task<absl::Status> GroupCommit::CommitInGroup(ManifestBatch change) {
  const bool leads = gathering_ == nullptr;
  if (leads) gathering_ = std::make_shared<Group>(executor_);
  const std::shared_ptr<Group> group = gathering_;
  MergeBatch(std::move(change), &group->batch);
  KVT_KILL_POINT("commit.gathering");
  if (!leads) {
    KVT_KILL_POINT("commit.joined");
    co_await group->done.WaitUntil(absl::InfiniteFuture());
    co_return group->status;
  }
  // The caller that opened the group writes it, after the previous group was written; meanwhile
  // other callers add their changes.
  if (const std::shared_ptr<Group> before = writing_; before != nullptr) {
    co_await before->done.WaitUntil(absl::InfiniteFuture());
  }
  writing_ = group;
  gathering_.reset();
  ++batches_;
  ManifestBatch batch = std::move(group->batch);
  KVT_KILL_POINT("commit.writing");
  group->status = co_await manifest_->Commit(std::move(batch));
  KVT_KILL_POINT("commit.done");
  group->done.Set();
  co_return group->status;
}

}  // namespace kvtier
