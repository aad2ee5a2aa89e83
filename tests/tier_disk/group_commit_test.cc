#include "tier_disk/manifest/group_commit.h"

#include <gtest/gtest.h>

#include "tests/testing/numbered_key.h"
#include "tests/testing/sim_disk.h"
#include "tests/testing/sim_manifest.h"
#include "tests/tier_disk/run_task.h"
#include "tier_disk/manifest/manifest_value.h"

namespace kvtier {
namespace {

ManifestBatch Put(uint64_t number) {
  ManifestBatch batch;
  batch.puts.push_back({.block = {.key = testing::NumberedKey(number), .length = 4096}});
  return batch;
}
ManifestBatch Erase(uint64_t number) { return {.erases = {testing::NumberedKey(number)}}; }

class GroupCommitTest : public ::testing::Test {
 protected:
  GroupCommitTest()
      : executor_(&time_),
        disk_(&executor_, &disk_media_),
        manifest_(&executor_, &media_),
        commits_(&executor_, &manifest_, &disk_) {}
  // Starts all of them at once, then waits for them.
  std::vector<absl::Status> CommitTogether(std::vector<ManifestBatch> changes) {
    std::vector<std::optional<absl::Status>> results(changes.size());
    TaskScope scope(&executor_);
    for (size_t i = 0; i < changes.size(); ++i) {
      scope.Spawn(testing::Collect(commits_.Commit(std::move(changes[i])), &results[i]));
    }
    while (time_.Step()) {
    }
    std::vector<absl::Status> statuses;
    for (const auto& result : results) statuses.push_back(*result);
    return statuses;
  }
  bool Holds(uint64_t number) {
    return media_.rows.contains(BlockRowKey(testing::NumberedKey(number)));
  }

  testing::SimTime time_;
  testing::SimExecutor executor_;
  testing::SimManifestMedia media_{1};
  testing::SimDiskMedia disk_media_{2, uint64_t{1} << 20, 1};
  testing::SimDisk disk_;
  testing::SimManifest manifest_;
  GroupCommit commits_;
};

TEST_F(GroupCommitTest, ConcurrentChangesShareABatch) {
  std::vector<ManifestBatch> changes;
  for (uint64_t i = 0; i < 50; ++i) changes.push_back(Put(i));
  for (const absl::Status& status : CommitTogether(std::move(changes))) {
    EXPECT_EQ(status, absl::OkStatus());
  }
  for (uint64_t i = 0; i < 50; ++i) EXPECT_TRUE(Holds(i));
  EXPECT_EQ(commits_.batches(), 2);  // The first one alone, the others together.
}

TEST_F(GroupCommitTest, AFailureIsTheAnswerOfEveryoneInTheBatch) {
  media_.faults.commit_error = 1;
  std::vector<ManifestBatch> changes;
  for (uint64_t i = 0; i < 5; ++i) changes.push_back(Put(i));
  for (const absl::Status& status : CommitTogether(std::move(changes))) {
    EXPECT_TRUE(absl::IsUnavailable(status));
  }
}

TEST_F(GroupCommitTest, ChangesTakeEffectInTheOrderOfTheCalls) {
  std::vector<ManifestBatch> changes;
  changes.push_back(Put(100));  // Occupies the manifest; the rest share a batch.
  changes.push_back(Put(1));
  changes.push_back(Erase(1));
  changes.push_back(Put(2));
  changes.push_back(Erase(2));
  changes.push_back(Put(2));
  CommitTogether(std::move(changes));
  EXPECT_FALSE(Holds(1));
  EXPECT_TRUE(Holds(2));
}

}  // namespace
}  // namespace kvtier
