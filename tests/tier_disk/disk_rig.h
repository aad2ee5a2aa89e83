// DiskRig is one disk and a DiskTier over it, in one of three forms, so that one test serves all:
// simulated, io_uring on files, pread on files.
#ifndef KVTIER_TESTS_TIER_DISK_DISK_RIG_H_
#define KVTIER_TESTS_TIER_DISK_DISK_RIG_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/thread_executor.h"
#include "tests/testing/sim_disk.h"
#include "tests/testing/sim_executor.h"
#include "tests/testing/sim_manifest.h"
#include "tests/tier_disk/disk_blocks.h"
#include "tests/tier_disk/run_task.h"
#include "tier_disk/directory/open_disk.h"
#include "tier_disk/disk_tier.h"

namespace kvtier::testing {

enum class DiskForm { kSim, kUring, kPread };

inline std::string FormName(DiskForm form) {
  return form == DiskForm::kSim ? "Sim" : form == DiskForm::kUring ? "Uring" : "Pread";
}

class DiskRig {
 public:
  struct Shape {
    uint32_t segments = 6;
    uint64_t segment_bytes = uint64_t{1} << 20;
    uint64_t seed = 1;
    std::shared_ptr<const MasterSecret> secret{};  // Null: payloads are in the clear.
    EvictionPolicy eviction = EvictionPolicy::kLearnt;
  };
  using OnDrop = std::function<void(const BlockKey&)>;

  // Makes a rig. REQUIRES: `directory` does not exist; unused by kSim.
  DiskRig(DiskForm form, const Shape& shape, std::string directory, OnDrop on_drop);
  ~DiskRig();

  // Makes the seams and the tier, and opens it. Errors: theirs.
  absl::Status Open();
  void Close();

  template <typename T>
  T Run(Task<T> task) {
    if (form_ == DiskForm::kSim) return RunTask(&sim_time, sim_executor.get(), std::move(task));
    return RunTask(executor_.get(), std::move(task));
  }
  absl::Status Put(uint64_t number, uint64_t length, std::optional<uint64_t> parent = {},
                   const std::string& tenant = kNoTenant);
  // Gets a block. Returns kOk only if the bytes are the block's own.
  absl::Status Get(uint64_t number, uint64_t length);
  absl::Status Erase(uint64_t number) { return Run(tier->Erase(DiskKey(number))); }

  // Sets the secret from the next Open() on.
  void Mount(std::shared_ptr<const MasterSecret> secret) { layout_.secret = std::move(secret); }
  const DiskLayout& layout() const { return layout_; }
  const OpenedDisk& opened() const { return opened_; }  // REQUIRES: a real form, open.

  // Parts of the simulated form, for tests that break them.
  SimTime sim_time;
  SimDiskMedia disk_media;
  SimManifestMedia manifest_media;
  std::unique_ptr<SimExecutor> sim_executor;
  std::unique_ptr<SimDisk> sim_disk;

  std::unique_ptr<DiskTier> tier;
  DiskTier::Recovery recovery;  // Result of the last Open().

 private:
  DiskTier::Follower Listener() const;
  absl::Status MakeSimSeams();
  absl::Status MakeRealSeams();

  const DiskForm form_;
  DiskLayout layout_;
  const EvictionPolicy eviction_;
  const OnDrop on_drop_;
  InlineByteThreads inline_byte_threads_;
  std::unique_ptr<SimManifest> sim_manifest_;
  std::unique_ptr<TenantKeys> sim_keys_;
  std::unique_ptr<ThreadExecutor> executor_;
  std::unique_ptr<BytePool> pool_;
  OpenedDisk opened_;
};

// Returns a secret whose files have these bytes, each 32 times; `previous` 0: there is none.
std::shared_ptr<const MasterSecret> TestSecret(uint8_t master, uint8_t previous = 0);

// Returns a fresh name below the test's temporary directory; the rig removes it.
std::string FreshDirectory(const std::string& name);

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TIER_DISK_DISK_RIG_H_
