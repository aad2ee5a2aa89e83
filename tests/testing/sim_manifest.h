// SimManifest is the Manifest seam in virtual time; SimManifestMedia holds its rows
// and outlives the simulated process.
#ifndef KVTIER_TESTS_TESTING_SIM_MANIFEST_H_
#define KVTIER_TESTS_TESTING_SIM_MANIFEST_H_

#include <cstdint>
#include <map>
#include <random>
#include <string>

#include "absl/time/time.h"
#include "core/executor.h"
#include "tier_disk/manifest/manifest.h"

namespace kvtier::testing {

struct SimManifestFaults {
  double commit_error = 0;  // Chance of each commit to fail (kUnavailable), applied or not.
  bool load_fails = false;  // Whether Load() answers kUnavailable.
  bool gone = false;        // Whether commits answer kNotFound, as if the files were moved away.
  bool full = false;        // Whether HasRoom() answers kResourceExhausted.
  absl::Duration latency = absl::Microseconds(30);
};

// SimManifestMedia is single-threaded, and stores rows as RocksManifest does.
class SimManifestMedia {
 public:
  explicit SimManifestMedia(uint64_t seed) : random_(seed) {}

  void Apply(const ManifestBatch& batch);
  bool Draw(double chance);

  SimManifestFaults faults;
  std::map<std::string, std::string> rows;  // Public for tests that damage values.

 private:
  std::mt19937_64 random_;
};

// SimManifest is one process's handle. To crash the process, destroy the tasks that wait here: a
// commit in progress then applies whole or not at all, by a coin of the media's seed.
class SimManifest final : public Manifest {
 public:
  // Makes a manifest. Does not own `executor` and `media`; `media` outlives the manifest and its
  // tasks.
  SimManifest(Executor* executor, SimManifestMedia* media) : executor_(executor), media_(media) {}

  Task<absl::Status> Commit(ManifestBatch batch) override;
  Task<absl::Status> EraseSalt(std::string tenant) override;
  absl::Status HasRoom() const override;
  Task<absl::StatusOr<ManifestImage>> Load() override;

 private:
  Executor* const executor_;
  SimManifestMedia* const media_;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_SIM_MANIFEST_H_
