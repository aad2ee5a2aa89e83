// OutcomeSlab is the pinned memory of all BlockOutcomes of a worker's lanes, taken once:
// pinning and letting go of a job's own could wait for all that the device runs.
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

// One thread at a time.
class OutcomeSlab {
 public:
  // Jobs of a direction that are served at once, and what each may have lent at a time: full
  // batches of 512 MiB, 10 ms on PCIe 5.0. 10 MiB in all.
  static constexpr size_t kJobs = 32;
  static constexpr size_t kJobBatches = 64;

  // The outcomes of some batches; gives them back at its end. Move-only.
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
    std::vector<BlockOutcomes*>* free_ = nullptr;  // Where they go.
    std::vector<BlockOutcomes*> batches_;
  };

  // `device` is not owned. Errors: Device::Pin()'s.
  static absl::StatusOr<std::unique_ptr<OutcomeSlab>> Pin(Device* device);
  // REQUIRES: all were given back.
  ~OutcomeSlab();
  OutcomeSlab(const OutcomeSlab&) = delete;
  OutcomeSlab& operator=(const OutcomeSlab&) = delete;

  // One for each of `batches`, with nothing in it. Errors: kResourceExhausted, so many are
  // not free: never, with kJobs that have kJobBatches each.
  absl::StatusOr<Lent> Lend(CopyDirection direction, size_t batches);

 private:
  static constexpr size_t kBatches = kJobs * kJobBatches;  // Of a direction.
  OutcomeSlab(Device* device, std::span<std::byte> bytes);

  Device* const device_;
  const std::span<std::byte> bytes_;  // Whole pages, pinned.
  std::array<std::vector<BlockOutcomes*>, kCopyDirections> free_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_OUTCOME_SLAB_H_
