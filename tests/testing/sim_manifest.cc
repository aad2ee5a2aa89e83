#include "tests/testing/sim_manifest.h"

#include <utility>

#include "core/event.h"
#include "tier_disk/manifest/manifest_value.h"

namespace kvtier::testing {
namespace {

// PendingCommit is a commit in progress. If it is destroyed before Land() (the process died), a
// coin decides whether it applies.
class PendingCommit {
 public:
  PendingCommit(SimManifestMedia* media, ManifestBatch batch)
      : media_(media), batch_(std::move(batch)) {}
  PendingCommit(const PendingCommit&) = delete;
  PendingCommit& operator=(const PendingCommit&) = delete;
  ~PendingCommit() {
    if (!landed_ && media_->Draw(0.5)) media_->Apply(batch_);
  }
  absl::Status Land() {
    landed_ = true;
    const bool fails = media_->Draw(media_->faults.commit_error);
    if (!fails || media_->Draw(0.5)) media_->Apply(batch_);
    return fails ? absl::UnavailableError("simulated manifest error") : absl::OkStatus();
  }

 private:
  SimManifestMedia* const media_;
  const ManifestBatch batch_;
  bool landed_ = false;
};

}  // namespace

void SimManifestMedia::Apply(const ManifestBatch& batch) {
  for (const BlockKey& key : batch.erases) rows.erase(BlockRowKey(key));
  for (const auto& generation : batch.generations) {
    rows[GenerationRowKey(generation.segment)] = EncodeGeneration(generation);
  }
  for (const DiskEntry& entry : batch.puts) rows[BlockRowKey(entry.block.key)] = EncodeEntry(entry);
  for (const TenantSalt& salt : batch.salts) {
    rows[TenantSaltRowKey(salt.tenant)] = EncodeTenantSalt(salt);
  }
}

bool SimManifestMedia::Draw(double chance) {
  if (chance <= 0) return false;
  return static_cast<double>(random_() >> 11) * 0x1p-53 < chance;
}

Task<absl::Status> SimManifest::Commit(ManifestBatch batch) {
  PendingCommit commit(media_, std::move(batch));
  co_await SleepUntil(executor_, executor_->Now() + media_->faults.latency);
  absl::Status landed = commit.Land();
  if (media_->faults.gone) co_return absl::NotFoundError("/disk/manifest is gone");
  co_return landed;
}

absl::Status SimManifest::HasRoom() const {
  return media_->faults.full ? absl::ResourceExhaustedError("the manifest has no room")
                             : absl::OkStatus();
}

Task<absl::Status> SimManifest::EraseSalt(std::string tenant) {
  co_await SleepUntil(executor_, executor_->Now() + media_->faults.latency);
  const bool fails = media_->Draw(media_->faults.commit_error);
  if (!fails || media_->Draw(0.5)) media_->rows.erase(TenantSaltRowKey(tenant));
  co_return fails ? absl::UnavailableError("simulated manifest error") : absl::OkStatus();
}

Task<absl::StatusOr<ManifestImage>> SimManifest::Load() {
  co_await SleepUntil(executor_, executor_->Now() + media_->faults.latency);
  if (media_->faults.load_fails) co_return absl::UnavailableError("simulated manifest error");
  ManifestImage image;
  for (auto row = media_->rows.begin(); row != media_->rows.end();) {
    const bool proven = DecodeRow(row->first, row->second, &image).ok();
    if (!proven) ++image.dropped_corrupt;
    row = proven ? std::next(row) : media_->rows.erase(row);
  }
  co_return image;
}

}  // namespace kvtier::testing
