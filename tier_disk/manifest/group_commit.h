// GroupCommit gathers the manifest changes of concurrent flows into one batch at a time: changes
// that arrive while a batch is being written join the next one. So a put under load costs a
// fraction of a manifest write.
//
// Executor thread only. Changes take effect in the order of the calls.
#ifndef KVTIER_TIER_DISK_MANIFEST_GROUP_COMMIT_H_
#define KVTIER_TIER_DISK_MANIFEST_GROUP_COMMIT_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/task.h"
#include "tier_disk/manifest/manifest.h"

namespace kvtier {

class GroupCommit {
 public:
  // Owns none of them.
  GroupCommit(Executor* executor, Manifest* manifest, Disk* disk)
      : executor_(executor), manifest_(manifest), disk_(disk) {}
  // Commits a change; ends when the batch with the change is durable. Errors: that batch's, for
  // every change in it (whether it was applied is then unknown); the disk is told of each.
  Task<absl::Status> Commit(ManifestBatch change);
  uint64_t batches() const { return batches_; }

 private:
  struct Group {
    explicit Group(Executor* executor) : done(executor) {}
    ManifestBatch batch;
    Event done;
    absl::Status status;
  };
  Task<absl::Status> CommitInGroup(ManifestBatch change);

  Executor* const executor_;
  Manifest* const manifest_;
  Disk* const disk_;
  std::shared_ptr<Group> writing_;    // Last batch given to the manifest.
  std::shared_ptr<Group> gathering_;  // Next batch; null until a change needs it.
  uint64_t batches_ = 0;
};

// Adds `later` to `batch`, so that applying the sum equals applying one after the other, given the
// order inside a batch (erases, generations, puts, salts; no two batches name a salt of the same
// tenant).
void MergeBatch(ManifestBatch later, ManifestBatch* batch);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_MANIFEST_GROUP_COMMIT_H_
