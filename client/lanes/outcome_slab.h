// OutcomeSlab is the pinned memory of all BlockOutcomes of a worker's lanes, allocated once:
// pinning and unpinning memory for each job could wait for everything that the device runs.
#ifndef KVTIER_CLIENT_LANES_OUTCOME_SLAB_H_
#define KVTIER_CLIENT_LANES_OUTCOME_SLAB_H_

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tier_gpu/device/block_batch.h"
#include "tier_gpu/device/device.h"

namespace kvtier {

// OutcomeSlab lends outcomes. Used by one thread at a time.
class OutcomeSlab {
 public:
  // Number of jobs of one direction that are served at once, and of batches lent to each at a time:
  // 64 full batches copy 1 GiB. The slab has 10 MiB.
  static constexpr size_t kJobs = 32;
  static constexpr size_t kJobBatches = 64;

  // Lent is the outcomes of some batches; the destructor gives them back. Move-only.
  class Lent {
   public:
    Lent() = default;
    Lent(Lent&& other) noexcept { *this = std::move(other); }
    Lent& operator=(Lent&& other) noexcept {
      std::swap(free_, other.free_);
      std::swap(batches_, other.batches_);
      return *this;
    }
    ~Lent();
    size_t size() const { return batches_.size(); }
    BlockOutcomes* of(size_t batch) const { return batches_[batch]; }

   private:
    friend class OutcomeSlab;
    std::vector<BlockOutcomes*>* free_ = nullptr;  // List to which they go back.
    std::vector<BlockOutcomes*> batches_;
  };

  // Allocates and pins the slab. Does not own `device`. Errors: Device::Pin()'s.
  static absl::StatusOr<std::unique_ptr<OutcomeSlab>> Pin(Device* device);
  // REQUIRES: all were given back.
  ~OutcomeSlab();
  OutcomeSlab(const OutcomeSlab&) = delete;
  OutcomeSlab& operator=(const OutcomeSlab&) = delete;

  // Lends empty outcomes, one for each of `batches`. Errors: kResourceExhausted, too few are free,
  // which cannot happen while at most kJobs jobs have kJobBatches each.
  absl::StatusOr<Lent> Lend(CopyDirection direction, size_t batches);

 private:
  static constexpr size_t kBatches = kJobs * kJobBatches;  // Number of batches in one direction.
  OutcomeSlab(Device* device, std::span<std::byte> bytes);

  Device* const device_;
  const std::span<std::byte> bytes_;  // Whole pages, pinned.
  std::array<std::vector<BlockOutcomes*>, kCopyDirections> free_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_OUTCOME_SLAB_H_
