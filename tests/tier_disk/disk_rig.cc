#include "tests/tier_disk/disk_rig.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"
#include "tier_disk/cipher/secret_key.h"

namespace kvtier::testing {

std::string FreshDirectory(const std::string& name) {
  static std::atomic<int> number{0};
  const std::string path =
      absl::StrCat(::testing::TempDir(), "kvtier-", name, "-", getpid(), "-", number++);
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return path;
}

std::shared_ptr<const MasterSecret> TestSecret(uint8_t master, uint8_t previous) {
  MasterSecret secret{.current = KeyMaterial(std::vector<uint8_t>(32, master))};
  if (previous != 0) secret.previous.emplace(std::vector<uint8_t>(32, previous));
  return std::make_shared<const MasterSecret>(std::move(secret));
}

DiskRig::DiskRig(DiskForm form, const Shape& shape, std::string directory, OnDrop on_drop)
    : disk_media(shape.segments, shape.segment_bytes, shape.seed),
      manifest_media(shape.seed + 1),
      form_(form),
      layout_{.directory = std::move(directory),
              .segment_bytes = shape.segment_bytes,
              .segment_count = shape.segments,
              .secret = shape.secret},
      eviction_(shape.eviction),
      on_drop_(std::move(on_drop)) {}

DiskRig::~DiskRig() {
  Close();
  if (form_ == DiskForm::kSim) return;
  std::error_code error;
  std::filesystem::remove_all(layout_.directory, error);
}

DiskTier::Follower DiskRig::Listener() const {
  return [this](DiskTier::Change change, const BlockKey& key, TenantTag) {
    if (change == DiskTier::Change::kDropped) on_drop_(key);
  };
}

absl::Status DiskRig::MakeSimSeams() {
  sim_executor = std::make_unique<SimExecutor>(&sim_time);
  sim_disk = std::make_unique<SimDisk>(sim_executor.get(), &disk_media);
  sim_manifest_ = std::make_unique<SimManifest>(sim_executor.get(), &manifest_media);
  if (layout_.secret != nullptr) {
    DiskIdentity identity;
    identity.disk.bytes.fill(1);
    identity.incarnation.bytes.fill(2);
    OpeningId opening;
    FillRandom(opening.bytes);
    sim_keys_ = std::make_unique<TenantKeys>(layout_.secret, identity, opening);
  }
  tier = std::make_unique<DiskTier>(
      sim_executor.get(), &inline_byte_threads_, sim_disk.get(), sim_manifest_.get(), Listener(),
      DiskTierOptions{.keys = sim_keys_.get(), .eviction = eviction_});
  return absl::OkStatus();
}

absl::Status DiskRig::MakeRealSeams() {
  executor_ = std::make_unique<ThreadExecutor>("test-executor");
  pool_ = std::make_unique<BytePool>(executor_.get(), "test-bytes", 2);
  const DiskIoKind io = form_ == DiskForm::kUring ? DiskIoKind::kUring : DiskIoKind::kPread;
  KVT_ASSIGN_OR_RETURN(opened_, OpenDisk(executor_.get(), layout_, io));
  tier = std::make_unique<DiskTier>(
      executor_.get(), pool_.get(), opened_.disk.get(), opened_.manifest.get(), Listener(),
      DiskTierOptions{.keys = opened_.keys.get(), .eviction = eviction_});
  return absl::OkStatus();
}

absl::Status DiskRig::Open() {
  Close();
  KVT_RETURN_IF_ERROR(form_ == DiskForm::kSim ? MakeSimSeams() : MakeRealSeams());
  KVT_ASSIGN_OR_RETURN(recovery, Run(tier->Open()));
  return absl::OkStatus();
}

void DiskRig::Close() {
  // The simulated form may be closed in the middle of a reclaim, as if the process died. Real I/O
  // must end first.
  if (tier != nullptr && form_ != DiskForm::kSim) Run(tier->Idle(absl::InfiniteFuture()));
  tier.reset();
  opened_.keys.reset();
  sim_keys_.reset();
  opened_.manifest.reset();
  opened_.disk.reset();
  opened_.files.reset();
  pool_.reset();
  executor_.reset();
  sim_manifest_.reset();
  sim_disk.reset();
  sim_executor.reset();
}

absl::Status DiskRig::Put(uint64_t number, uint64_t length, std::optional<uint64_t> parent,
                          const std::string& tenant) {
  PageBuffer slot = DiskPayload(number, length);
  const BlockMeta block = MakeDiskBlock(number, length, parent);
  return Run(tier->Put(block, slot.bytes(), tenant));
}

absl::Status DiskRig::Get(uint64_t number, uint64_t length) {
  PageBuffer slot(length);
  KVT_RETURN_IF_ERROR(Run(tier->Get(DiskKey(number), slot.bytes())).status());
  if (HoldsDiskBlock(number, length, &slot)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("block ", number, ": WRONG BYTES served"));
}

}  // namespace kvtier::testing
